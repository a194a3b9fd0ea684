"""An ainb plugin with a screen, which does as the keys say. Standard library only.

c crashes, h holds frames back and u lets them go, e answers with an error, w with a wrong frame, ~ with one
that is no JSON; anything else is shown. With HANGS it never gets ready. What it gets is kept in the file that
INPUTS names; in that of FRAMES is a dot for each.
"""

import json
import os
import queue
import sys
import threading
import time
import tomllib

BORN = time.monotonic_ns()  # pids are the same in every namespace
work = queue.Queue()
free = threading.Event()
free.set()
lock = threading.Lock()
seen = {"last": "nothing yet", "answer": "frame", "frames": 0}
ROWS = json.loads(os.environ.get("ROWS", "[]"))
"""Rows of cells that it shows below its own: strings, one for each cell."""
MOST = int(os.environ.get("MOVING_UNTIL", "1000000000"))


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with lock:
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sys.stdout.buffer.flush()


def note(kind, params):
    if "INPUTS" in os.environ:
        with open(os.environ["INPUTS"], "a") as file:
            file.write(json.dumps([kind, params, time.monotonic()]) + "\n")


def key(params):
    code = params["key"]["code"]
    letter = code.get("ch", code["type"])
    if letter == "c" and not params["key"]["mods"]:
        os.write(2, b"ouch, said the easel\x1b[2J\n")
        os._exit(3)
    if letter == "h":
        free.clear()
    elif letter == "u":
        free.set()
    elif letter in ("e", "w", "~"):
        seen["answer"] = letter
    else:
        seen["answer"] = "frame"
        seen["last"] = f"key {letter} {params['key']['mods']}"


def frame(view):
    seen["frames"] += 1
    if "FRAMES" in os.environ:
        with open(os.environ["FRAMES"], "a") as file:
            file.write(".")
    lines = [
        f"{view['width']}x{view['height']} born {BORN}",
        seen["last"],
        "counting %d" % (min(seen["frames"], MOST) if os.environ.get("MOVING") else 0),
    ]
    turn = seen["frames"] % len(ROWS) if ROWS and os.environ.get("MOVING") else 0
    shown = [*map(list, lines), *ROWS[turn:], *ROWS[:turn]]
    cells = [
        [{"x": x, "y": y}, {"symbol": symbol, "fg": {"r": 255, "g": 0, "b": 0}, "modifier": 1}]
        for y, line in enumerate(shown)
        for x, symbol in enumerate(line)
    ]
    return {"buffer": {**view, "cells": cells}}


def answer(number, method, params):
    if method == "plugin/init":
        if "HANGS" in os.environ:
            os.write(2, b"waiting for the moon\n")
            threading.Event().wait()
        with open(params["manifest_path"], "rb") as file:
            manifest = tomllib.load(file)
        return {"result": {**manifest["plugin"], "manifest": manifest}}
    if method == "plugin/render":
        free.wait()
        if seen["answer"] == "e":
            return {"error": {"code": -32603, "message": "no paint"}}
        if seen["answer"] == "~":
            return {
                "result": {
                    "buffer": {
                        **params["viewport"],
                        "cells": [[{"x": 0, "y": 0}, {"symbol": "\ud800" * 1001}]],
                    }
                }
            }
        if seen["answer"] == "w":
            return {"result": {"buffer": {"width": -1, "height": 1}}}
        return {"result": frame(params["viewport"])}
    return {"result": {}}


def serve():
    while True:
        number, method, params = work.get()
        send({"id": number, **answer(number, method, params)})


threading.Thread(target=serve, daemon=True).start()
while line := sys.stdin.buffer.readline():
    length = int(line.split(b":")[1])
    sys.stdin.buffer.readline()
    message = json.loads(sys.stdin.buffer.read(length))
    method, number, params = message["method"], message.get("id"), message["params"]
    if number is not None:
        if method == "plugin/shutdown":
            free.set()
        work.put((number, method, params))
    elif method == "plugin/handle_key":
        note("key", params)
        key(params)
    elif method == "plugin/handle_mouse":
        note("mouse", params)
        seen["last"] = (
            f"mouse {params['mouse']['kind']['type']} {params['mouse']['col']},{params['mouse']['row']}"
        )
    else:
        note("event", len(params["payload"]))
