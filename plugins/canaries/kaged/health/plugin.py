"""It knows no health.check, and answers ping with an error: it is unwell, but alive."""

import json
import sys

ABOUT = {"name": "canary-health", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    code = -32000 if method == "ping" else -32601
    return {"error": {"code": code, "message": f"not well enough for {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
