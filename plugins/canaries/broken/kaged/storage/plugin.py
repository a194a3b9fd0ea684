"""It takes for granted that it may keep what it heard of."""

import json
import sys

ABOUT = {"name": "canary-storage", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}
waiting = []


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, **params):
    """What the host answers; nothing else comes meanwhile but requests, which wait."""
    send(id=f"please {method}", method=method, params=params)
    while "method" in (message := json.loads(sys.stdin.buffer.readline())):
        waiting.append(message)
    return message


def keep(params):
    return ask("kaged.storage.set", key="last", value=sorted(params))["result"]


def answer(method, params):
    if method == "canary.echo":
        return {"result": keep(params)}
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


while waiting or (line := sys.stdin.buffer.readline()):
    message = waiting.pop(0) if waiting else json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
