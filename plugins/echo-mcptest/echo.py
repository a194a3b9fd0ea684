#!/usr/bin/env python3
"""The reference mcptest plugin: `echo` returns its params, `ping` returns "pong"."""

import json
import sys


class Refused(Exception):
    """An error reply: code and message."""


def handle(method, params):
    if method == "echo":
        if params is None:
            raise Refused(-32602, "echo needs params")
        return params
    if method == "ping":
        return "pong"
    raise Refused(-32601, f"no method {method!r}")


def reply(line):
    number = None
    try:
        request = json.loads(line)
        number = request["id"]
        return {"id": number, "result": handle(request["method"], request.get("params"))}
    except Refused as refused:
        code, message = refused.args
    except ValueError as error:
        code, message = -32700, f"not JSON: {error}"
    except Exception as error:
        code, message = -32603, f"{type(error).__name__}: {error}"
    return {"id": number, "error": {"code": code, "message": message}}


for line in sys.stdin:
    print(json.dumps(reply(line)), flush=True)
