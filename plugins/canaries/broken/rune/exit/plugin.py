"""It waits for another request, and the end of its stdin is none."""

import sys

sys.path.insert(0, "../../../rune")
import plain

plain.greet()
plain.answer()
plain.execute(sys.stdin.buffer.readline())
