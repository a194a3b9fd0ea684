"""Its methods are its tools and hooks; results have an empty error beside them, refusals their data."""

import json
import sys

ABOUT = {
    "name": "canary-methods",
    "version": "1.0.0",
    "api_version": 1,
    "methods": ["canary-methods.echo", "canary-methods.fail"],
}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    hooks = {"kaged.hook.on_session_start": None, "kaged.hook.pre_compact": False}
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary-methods.echo": params, **hooks}
    if method in known:
        return {"result": known[method], "error": None}
    code = -32000 if method == "canary-methods.fail" else -32601
    return {"error": {"code": code, "message": "", "data": {"asked": params}}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
