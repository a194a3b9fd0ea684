"""burndown: the program that a host starts."""

from burndown_screen.plugin import make

make().run()
