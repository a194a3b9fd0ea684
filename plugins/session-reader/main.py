"""session-reader: the program that a host starts."""

from session_reader.plugin import make

make().run()
