"""It declares a capability twice."""

import sys

sys.path.insert(0, "../../../rune")
import plain

plain.greet(capabilities=["tool.execute", "tool.execute"])
plain.answer()
