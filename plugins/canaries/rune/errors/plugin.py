"""It answers what is no request with an error, instead of ending."""

import json
import sys

sys.path.insert(0, "..")
import plain

plain.greet()
if line := sys.stdin.buffer.readline():
    try:
        response = plain.execute(json.loads(line))
    except (ValueError, TypeError, KeyError) as error:
        told = {"code": "invalid_input", "message": repr(error)}
        response = {"type": "response", "request_id": "", "status": "error", "error": told}
    plain.send(response)
