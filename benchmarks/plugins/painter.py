"""An ainb plugin with a screen: frames that were encoded before, so that drawing them costs it nothing.

`painter.py KIND`: `still` is one picture, `runs` a picture of coloured runs of which every row moves,
`mixed` one in which every cell looks different from its neighbours and from what it was. `heard` tells when
keys came.
"""

import json
import sys
import time
import tomllib

FRAMES = 16
KIND = sys.argv[1]
bodies = {}


def cell(x, y, turn):
    if KIND == "mixed":
        shade = {"r": x * 3 % 256, "g": (y * 10 + turn * 16) % 256, "b": (x + y + turn) * 7 % 256}
        ground = {"r": turn * 8, "g": x % 256, "b": y}
        return {
            "symbol": chr(33 + (x + y + turn) % 90),
            "fg": shade,
            "bg": ground,
            "modifier": (x + turn) % 2,
        }
    moved = x + (turn if KIND == "runs" else 0)
    shade = {"r": 40 + moved // 10 % 8 * 25, "g": 120, "b": y * 10 % 256}
    return {"symbol": chr(97 + moved % 26), "fg": shade, "bg": {"r": 0, "g": 0, "b": 40}, "modifier": 0}


def body(width, height, turn):
    """The result of a render, as text that is made once."""
    key = width, height, turn % FRAMES
    if key not in bodies:
        cells = [[{"x": x, "y": y}, cell(x, y, key[2])] for y in range(height) for x in range(width)]
        buffer = {"width": width, "height": height, "cells": cells}
        bodies[key] = json.dumps({"buffer": buffer, "redraw": True}, separators=(",", ":")).encode()
    return bodies[key]


def send(number, result):
    text = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (number, result)
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
    sys.stdout.buffer.flush()


turn = 0
keys = []
while line := sys.stdin.buffer.readline():
    length = int(line.split(b":")[1])
    sys.stdin.buffer.readline()
    text = sys.stdin.buffer.read(length)
    if b'"plugin/handle_event"' in text[:100]:
        continue  # what is in it costs the plugin, not the host
    message = json.loads(text)
    method, number = message.get("method"), message.get("id")
    if method == "plugin/init":
        with open(message["params"]["manifest_path"], "rb") as file:
            manifest = tomllib.load(file)
        told = {**manifest["plugin"], "manifest": manifest}
        send(number, json.dumps(told).encode())
    elif method == "plugin/render":
        turn += 1
        view = message["params"]["viewport"]
        send(number, body(view["width"], view["height"], turn))
    elif method == "plugin/handle_key":
        keys.append(time.perf_counter_ns())
    elif method == "heard":
        send(number, json.dumps({"keys": keys}).encode())
    elif number is not None:
        send(number, b"{}")
