"""It asks for less than it is granted."""

import sys

sys.path.insert(0, "..")
import plain

plain.greet(capabilities=["fs.read"])
plain.answer()
