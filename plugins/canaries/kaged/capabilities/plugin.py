"""Where bait is laid out, it tries to get at it. If anything lets it, it ends with that word."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ABOUT = {"name": "canary-capabilities", "version": "1.0.0", "api_version": 1, "methods": ["canary.echo"]}
FOLDER, PORT = os.environ.get("PLUGHOST_BAIT_FOLDER"), os.environ.get("PLUGHOST_BAIT_PORT")


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def run(program):
    subprocess.run([program], stdout=subprocess.DEVNULL, check=False)


def attempts():
    secret = Path(FOLDER, "secret")
    yield "read a file", secret.read_text
    yield "see a folder", lambda: os.listdir(FOLDER)
    yield "write a file", lambda: Path(FOLDER, "mine").write_text("I was here")
    yield "change its own program", lambda: os.utime("plugin.py")
    yield "remove a file", secret.unlink
    yield "run a program", lambda: run(f"{FOLDER}/program")
    yield "run a program of the system", lambda: run("/usr/bin/id")
    yield "connect", lambda: socket.create_connection(("127.0.0.1", int(PORT)), 5)
    yield "send a datagram", lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))


def greedy():
    got = []
    for what, attempt in attempts():
        try:
            attempt()
        except OSError:
            continue
        got.append(what)
    if got:
        sys.exit(f"nothing kept it from this: {', '.join(got)}")


def answer(method, params):
    if method == "canary.echo" and FOLDER:
        greedy()
    known = {"initialize": ABOUT, "shutdown": {}, "health.check": {}, "canary.echo": params}
    if method in known:
        return {"result": known[method]}
    return {"error": {"code": -32601, "message": f"there is no {method}"}}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        send(id=message["id"], **answer(message["method"], message["params"]))
