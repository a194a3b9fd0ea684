"""An ainb plugin that does as it is told, well or badly. Standard library only.

What it does before it answers plugin/init is told by variables: `init` (short, full, other name, other
version, other abi, refuse, never, crash, ask first, publish first, null), `crash_on` (a method), `rude`
(answers no shutdown and ignores the end of its stdin).
"""

import base64
import json
import os
import signal
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
last = [0]
received = []
INIT = os.environ.get("init", "full")
NAME = os.path.basename(sys.argv[0])


def write_all(data):
    with lock:
        while data:
            data = data[os.write(1, data) :]


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    write_all(b"Content-Length: %d\r\n\r\n" % len(body) + body)


def read():
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        length = int(line.split(b":")[1])


def ask(method, params, number=None):
    with lock:
        last[0] += 1
        number = last[0] if number is None else number
    done = threading.Event()
    waiting[number] = [done, None]
    send({"id": number, "method": method, "params": params})
    done.wait(30)
    return waiting.pop(number)[1]


def tell(method, params):
    send({"method": method, "params": params})


def publish(topic, text):
    tell("host/snapshot/publish", {"topic": topic, "payload": base64.b64encode(text.encode()).decode()})


def manifest():
    import tomllib

    with open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "manifest.toml"), "rb") as file:
        return tomllib.load(file)


def init(number):
    about = manifest()["plugin"]
    full = {"name": about["name"], "version": about["version"], "abi_version": 2, "manifest": manifest()}
    if INIT == "never":
        return
    if INIT == "crash":
        sys.stderr.write("cannot start today\n")
        sys.stderr.flush()
        os._exit(3)
    if INIT == "refuse":
        send({"id": number, "error": {"code": -32003, "message": "manifest TOML invalid: no"}})
        return
    if INIT == "ask first":
        received.append(ask("host/snapshot/subscribe", {"topic": "early"}))
    if INIT == "publish first":
        publish("early", "from init")
    changes = {
        "other name": {"name": "somebody"},
        "other version": {"version": "9.9.9"},
        "other abi": {"abi_version": 3},
        "other manifest": {"manifest": {**manifest(), "provides": {"screens": ["another"]}}},
        "no manifest": {"manifest": {"plugin": {"name": "puppet"}}},
    }.get(INIT, {})
    if INIT == "short":
        full = {"name": about["name"], "version": about["version"]}
    result = [] if INIT == "list" else {} if INIT == "empty" else {**full, **changes}
    send({"id": number, "result": result})


def render(number, params):
    viewport = params["viewport"]
    cells = [
        [{"x": x, "y": 0}, {"symbol": symbol, "fg": {"r": 255, "g": 0, "b": 0}, "modifier": 1}]
        for x, symbol in enumerate(f"{viewport['width']}x{viewport['height']}")
    ]
    cells.append([{"x": 60000, "y": 0}, {"symbol": "!"}])
    send({"id": number, "result": {"buffer": {**viewport, "cells": cells}}})


def do(number, method, params):
    if method == os.environ.get("crash_on"):
        os._exit(4)
    if method == "echo":
        send({"id": number, "result": params})
    elif method == "pid":
        send({"id": number, "result": {"pid": os.getpid(), "env": dict(os.environ)}})
    elif method == "received":
        send({"id": number, "result": received})
    elif method == "silent":
        pass
    elif method == "sleep":
        time.sleep(params["seconds"])
        send({"id": number, "result": "slept"})
    elif method == "exit":
        os._exit(params["code"])
    elif method == "fail":
        send({"id": number, "error": params})
    elif method == "raw":
        write_all(params["text"].encode("latin-1").replace(b"$ID", str(number).encode()))
    elif method == "stderr":
        sys.stderr.write(params["text"])
        sys.stderr.flush()
        send({"id": number, "result": {}})
    elif method == "ask":
        send({"id": number, "result": ask(params["method"], params.get("params"), params.get("id"))})
    elif method == "tell":
        tell(params["method"], params["params"])
        send({"id": number, "result": {}})
    elif method == "publish":
        for text in params["texts"]:
            publish(params["topic"], text)
        send({"id": number, "result": {}})
    elif method == "deaf":
        send({"id": number, "result": {}})
        time.sleep(60)
    elif method == "plugin/render":
        if os.environ.get("wedge"):
            hold.acquire()
        render(number, params)
    elif method == "plugin/cli_dispatch":
        out = " ".join([params["namespace"], *params["argv"]]).encode() + b"\n\xff"
        result = {
            "stdout": base64.b64encode(out).decode(),
            "stderr": list(b"warned\n"),
            "exit_code": 7,
        }
        send({"id": number, "result": result})
    elif method == "host/action/invoke":
        if params["action"] == "slow":
            hold.acquire()
        send({"id": number, "result": {"payload": params["payload"]}})
    else:
        send({"id": number, "error": {"code": -32601, "message": f"method not found: {method}"}})


hold = threading.Semaphore(0)
if os.environ.get("rude"):
    signal.signal(signal.SIGTERM, lambda *_: os.write(2, b"SIGTERM, so what\n"))
if INIT == "publish before init":
    publish("early", "before init")
while (message := read()) is not None:
    method, number, params = message.get("method"), message.get("id"), message.get("params")
    if method is None:
        if number in waiting:
            waiting[number][1] = message
            waiting[number][0].set()
        else:
            received.append(message)
    elif number is None:
        if method == "release":  # one frame or action that is being held back
            hold.release()
        received.append([method, params])
    elif method == "plugin/init":
        received.append([method, params])
        threading.Thread(target=init, args=(number,), daemon=True).start()
    elif method == "plugin/shutdown":
        if not os.environ.get("rude"):
            send({"id": number, "result": {}})
    elif method in ("ask", "sleep", "plugin/render", "host/action/invoke"):
        threading.Thread(target=do, args=(number, method, params), daemon=True).start()
    else:
        do(number, method, params)
while os.environ.get("rude"):
    time.sleep(0.02)  # a signal that comes just before a sleep is only noticed after it
