"""It tells of itself as soon as it can, before it answers, and with params of every kind."""

import json
import sys

ABOUT = {"name": "canary-notifications", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


send(method="canary.began")
for line in sys.stdin.buffer:
    message = json.loads(line)
    send(method="canary.began", params=[message["method"]])
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
        send(method="Done/with it", params=None)
