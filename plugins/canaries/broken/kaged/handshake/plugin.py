"""It says that it uses what its manifest does not declare."""

import json
import sys

ABOUT = {
    "name": "canary-handshake",
    "version": "1.0.0",
    "api_version": 1,
    "methods": ["canary.echo"],
    "capabilities_used": ["read:fs:/etc"],
}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
