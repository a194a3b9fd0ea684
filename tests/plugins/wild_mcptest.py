"""An mcptest plugin that behaves like those in the wild: it answers every method itself (a matcher has no names to
know), and its serialiser writes both members of a response, with null for the absent one. Standard library only."""

import json
import sys

for line in sys.stdin:
    try:
        request = json.loads(line)
    except ValueError as problem:
        request, error = {"id": None}, {"code": -32700, "message": str(problem)}
    else:
        failed = request["method"] == "fail"
        error = {"code": 7, "message": "as you asked"} if failed else None
    result = None if error else {"matched": request["method"]}
    print(json.dumps({"id": request["id"], "result": result, "error": error}), flush=True)
