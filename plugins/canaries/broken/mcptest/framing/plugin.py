"""It takes what one read brings for a whole line."""

import os
import sys

sys.path.insert(0, "../../../mcptest")
import plain

plain.serve(lines=iter(lambda: os.read(0, 1 << 20), b""))
