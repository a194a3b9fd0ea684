"""It answers shutdown with null, has something to do yet when its stdin ends, and minds no SIGTERM."""

import json
import signal
import sys
import time

ABOUT = {"name": "canary-shutdown", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}

signal.signal(signal.SIGTERM, signal.SIG_IGN)


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": None, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
time.sleep(0.1)
