"""It has more to offer than its manifest says, another version, and its own way of writing JSON."""

import json
import sys

ABOUT = {
    "name": "canary-handshake",
    "version": "2.0.0-rc.1",
    "api_version": 1,
    "methods": ["canary.more", "canary.echo"],
    "capabilities_used": ["net:[]"],
    "mood": "fine",
}


def send(**message):
    sys.stdout.write(json.dumps({**message, "jsonrpc": "2.0"}, separators=(" , ", " :\t")) + "\r\n")
    sys.stdout.flush()


def answer(method, params):
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
