"""It does not know its own version."""

import sys

sys.path.insert(0, "../../../rune")
import plain

plain.greet(plugin_version="")
plain.answer()
