"""It ends with its response, whose line has no end, and waits for nothing."""

import json
import sys

sys.path.insert(0, "..")
import plain

plain.greet()
if line := sys.stdin.buffer.readline():
    sys.stdout.write(json.dumps(plain.execute(json.loads(line))))
