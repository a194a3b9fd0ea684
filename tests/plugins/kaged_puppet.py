"""A kaged plugin that does as it is told, well or badly. Standard library only.

Variables say how it begins: `init` (a JSON object over its answer to initialize, or never, crash, refuse),
`marks` (how many exclamation marks its refusal has),
`unknown` (protocol methods it does not know), `silent` (methods it never answers), `failing` (methods it refuses), `rude` (ignores the end of its
stdin and SIGTERM), `first` (what it writes before it answers initialize), `witness` (a file that it makes when it
hears initialized).
"""

import json
import os
import signal
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
received = []
last = [0]
held = []
INIT = os.environ.get("init", "{}")
UNKNOWN = os.environ.get("unknown", "").split()
FAILING = os.environ.get("failing", "").split()
SILENT = os.environ.get("silent", "").split()


def write_all(data):
    with lock:
        while data:
            data = data[os.write(1, data) :]


def send(**message):
    write_all(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def ask(method, params):
    with lock:
        last[0] += 1
        number = f"p{last[0]}"
    done = threading.Event()
    waiting[number] = [done, None]
    send(id=number, method=method, params=params)
    done.wait(30)
    return waiting.pop(number)[1]


def initialize(number, params):
    if INIT == "never":
        return
    if INIT == "crash":
        sys.stderr.write("cannot start today\n")
        sys.stderr.flush()
        os._exit(3)
    if INIT == "refuse":
        send(
            id=number,
            error={"code": -32000, "message": "not today" + "!" * int(os.environ.get("marks", "0"))},
        )
        return
    sys.stdout.flush()
    write_all(os.environ.get("first", "").encode())
    about = json.loads(os.environ["about"])
    result = {
        "name": params["plugin_name"],
        "version": about["version"],
        "api_version": 1,
        "methods": about["methods"],
        "notifications": about["notifications"],
        "capabilities_used": [],
        **json.loads(INIT),
    }
    send(id=number, result={key: value for key, value in result.items() if value is not None})


def do(number, method, params):
    if method in UNKNOWN:
        send(id=number, error={"code": -32601, "message": f"method not found: {method}"})
    elif method in SILENT:
        pass
    elif method in FAILING:
        send(id=number, error={"code": -32000, "message": "ill, but here"})
    elif method == "p.freeze":
        signal.sigwait({signal.SIGUSR1})
        send(id=number, result="thawed")
    elif method == "shutdown":
        sys.stderr.write("shutdown\n")
        sys.stderr.flush()
        send(id=number, result={"status": "ok"})
    elif method == "p.echo":
        send(id=number, result=params)
    elif method == "p.about":
        send(id=number, result={"pid": os.getpid(), "env": dict(os.environ), "cwd": os.getcwd()})
    elif method == "p.received":
        send(id=number, result=received)
    elif method == "p.hold":
        held.append(number)
    elif method == "p.exit":
        os._exit(params["code"])
    elif method == "p.fail":
        send(id=number, error=params)
    elif method == "p.try":
        import socket
        import subprocess

        try:
            value = eval(params["code"], {"os": os, "socket": socket, "subprocess": subprocess})
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        send(id=number, result=value)
    elif method == "p.raw":
        write_all(params["text"].encode("latin-1").replace(b"$ID", str(number).encode()))
    elif method == "p.fill":
        begin, end = b'{"jsonrpc":"2.0","id":%d,"result":"' % number, b'"}'
        write_all(begin + b"y" * (params["bytes"] - len(begin) - len(end)) + end + b"\n")
    elif method == "p.stderr":
        sys.stderr.write(params["text"])
        sys.stderr.flush()
        send(id=number, result={})
    elif method == "p.ask":
        send(id=number, result=ask(params["method"], params.get("params", {})))
    elif method == "p.tell":
        lines = [
            json.dumps({"jsonrpc": "2.0", "method": name, "params": said}) for name, said in params["tells"]
        ]
        write_all(("\n".join(lines) + "\n").encode() if lines else b"")
        send(id=number, result={})
    elif method == "kaged.hook.on_session_idle":
        send(id=number, error={"code": -32000, "message": "no memory of that"})
    else:
        send(id=number, result={"status": "ok"})


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if os.environ.get("rude"):
    signal.signal(signal.SIGTERM, lambda *_: os.write(2, b"SIGTERM, so what\n"))
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, number, params = message.get("method"), message.get("id"), message.get("params")
    if method is None:
        if number in waiting:
            waiting[number][1] = message
            waiting[number][0].set()
        continue
    received.append(message)
    if method == "initialized" and os.environ.get("witness"):
        open(os.environ["witness"], "w").close()
    if method == "initialize":
        initialize(number, params)
    elif method == "p.ask":
        threading.Thread(target=do, args=(number, method, params), daemon=True).start()
    elif number is not None:
        do(number, method, params)
while os.environ.get("rude"):
    time.sleep(0.02)  # a signal that comes just before a sleep is only noticed after it
