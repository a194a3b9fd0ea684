"""White space around its version does not count."""

import sys

sys.path.insert(0, "..")
import plain

plain.greet(protocol_version=" rterm.plugin.v1\t")
plain.answer()
