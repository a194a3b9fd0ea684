#!/usr/bin/env python3
"""The reference mcptest plugin: `echo` returns its params, `ping` returns "pong"."""

import json
import sys


class Refused(Exception):
    """An error reply: code and message."""


def handle(method, request):
    if method == "echo":
        if "params" not in request:  # null is a value like any other
            raise Refused(-32602, "echo needs params")
        return request["params"]
    if method == "ping":
        return "pong"
    raise Refused(-32601, f"no method {method!r}")


def reply(line):
    number = None
    try:
        request = json.loads(line)
        number = request["id"]
        result = handle(request["method"], request)
        return json.dumps({"id": number, "result": result}, allow_nan=False)
    except Refused as refused:
        code, message = refused.args
    except ValueError as error:
        code, message = -32700, f"not JSON: {error}"
    except Exception as error:
        code, message = -32603, f"{type(error).__name__}: {error}"
    return json.dumps({"id": number, "error": {"code": code, "message": message}})


for line in sys.stdin:
    print(reply(line), flush=True)
