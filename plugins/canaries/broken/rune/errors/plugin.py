"""What it cannot read, it takes for a request to do nothing."""

import json
import sys

sys.path.insert(0, "../../../rune")
import plain

plain.greet()
if line := sys.stdin.buffer.readline():
    try:
        response = plain.execute(json.loads(line))
    except (ValueError, TypeError, KeyError):
        response = {"type": "response", "request_id": "", "status": "ok"}
    plain.send(response)
