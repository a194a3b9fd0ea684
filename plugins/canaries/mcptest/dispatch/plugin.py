"""A table of methods, and refusals that say more than they must."""

import json
import sys

sys.path.insert(0, "..")
import plain

METHODS = {"echo": lambda params: params, "ping": lambda params: "pong"}


def answer(line):
    try:
        request = json.loads(line)
    except ValueError as error:
        return plain.refusal(None, -32700, str(error))
    method = METHODS.get(request["method"])
    if method is None:
        error = {"code": -32601, "message": "", "data": {"known": sorted(METHODS)}}
        return {"error": error, "id": request["id"]}
    return {"id": request["id"], "result": method(request.get("params"))}


plain.serve(answer)
