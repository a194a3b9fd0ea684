"""It takes the end of its stdin for a failure."""

import sys

sys.path.insert(0, "../../../mcptest")
import plain

plain.serve()
sys.exit("the host has gone")
