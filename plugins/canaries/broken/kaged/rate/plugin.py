"""It tells of every step."""

import json
import sys

ABOUT = {
    "name": "canary-rate",
    "version": "1.0.0",
    "api_version": 1,
    "methods": ["canary.echo"],
    "notifications": ["canary.counted"],
}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    if method == "canary.echo":
        for number in range(5000):
            send(method="canary.counted", params={"number": number})
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
