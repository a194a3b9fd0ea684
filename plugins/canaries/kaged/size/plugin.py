"""Its answer is as large as any may be, when the question was large."""

import json
import sys

ABOUT = {"name": "canary-size", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}
LARGEST = 4 << 20


def send(**message):
    text = json.dumps({"jsonrpc": "2.0", **message})
    print(text.ljust(LARGEST) if len(text) > LARGEST // 2 else text, flush=True)


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
