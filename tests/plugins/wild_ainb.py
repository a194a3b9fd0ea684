"""An ainb plugin that behaves like the original ones: it answers plugin/init with its name and version only, refuses
it when event_bus is withheld, subscribes by itself, and ends with its stdin. Standard library only."""

import itertools
import json
import os
import sys

numbers = itertools.count(1)


def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    os.write(1, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def read():
    length = None
    while line := sys.stdin.buffer.readline():
        if line == b"\r\n":
            return sys.stdin.buffer.read(length)
        length = int(line.split(b":")[1])
    return None


def init(params):
    if "event_bus" not in params["granted_capabilities"]:
        return {"error": {"code": -32001, "message": "capability denied: event_bus"}}
    send(id=next(numbers), method="host/snapshot/subscribe", params={"topic": "wild.topic"})
    return {"result": {"name": "wild", "version": "1.0.0"}}


while (body := read()) is not None:
    try:
        message = json.loads(body)
    except ValueError:
        continue
    if not isinstance(message, dict) or "method" not in message or message.get("id") is None:
        continue
    if message["method"] == "plugin/init":
        answer = init(message["params"])
    elif message["method"] == "plugin/shutdown":
        answer = {"result": {}}
    elif message["method"] == "plugin/render":
        answer = {"result": {"buffer": {"width": 0, "height": 0, "cells": []}}}
    else:
        answer = {"error": {"code": -32601, "message": f"method not found: {message['method']}"}}
    send(id=message["id"], **answer)
