#!/usr/bin/env python3
"""The reference kaged plugin: what it is given, it gives back, tells, or keeps in the host's storage."""

import collections
import itertools
import json
import sys

METHODS = ["echo.back", "echo.fail", "echo.announce", "echo.keep"]
source, wire = sys.stdin.buffer, sys.stdout.buffer
sys.stdout = sys.stderr  # a stray print ends up in the host's log, not between two messages
numbers = itertools.count(1)
backlog = collections.deque()  # what came while the host was being asked


class Refused(Exception):
    """An error reply: the error object."""


def send(**message):
    wire.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    wire.flush()


def receive():
    """The next message. The end of the stream is the end of the plugin."""
    while line := source.readline():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(message, dict):
            return message
    sys.exit(0)


def ask(method, params):
    """What the host answers; whatever else it says meanwhile waits for its turn."""
    number = next(numbers)
    send(id=number, method=method, params=params)
    while "method" in (message := receive()) or message.get("id") != number:
        backlog.append(message)
    if "error" in message:
        raise Refused(message["error"])
    return message["result"]


def initialize(params):
    return {
        "name": "echo-kaged",
        "version": "1.0.0",
        "api_version": 1,
        "methods": METHODS,
        "notifications": ["echo.said"],
        "capabilities_used": [],
    }


def fail(params):
    raise Refused({"code": -32000, "message": "you asked for it", "data": params})


def announce(params):
    send(method="echo.said", params=params)
    return {}


def keep(params):
    ask("kaged.storage.set", {"key": params["key"], "value": params["value"]})
    return ask("kaged.storage.get", {"key": params["key"]})


ANSWERS = {
    "initialize": initialize,
    "shutdown": lambda params: {"status": "ok"},
    "health.check": lambda params: {"status": "ok"},
    "ping": lambda params: {"status": "ok"},  # what published plugins know in place of health.check
    "kaged.hook.on_session_start": lambda params: {"inject": "echo is here"},
    "echo.back": lambda params: params,
    "echo.fail": fail,
    "echo.announce": announce,
    "echo.keep": keep,
}


def answer(method, params):
    try:
        if method not in ANSWERS:
            raise Refused({"code": -32601, "message": f"method not found: {method}"})
        return {"result": ANSWERS[method](params)}
    except Refused as refused:
        return {"error": refused.args[0]}
    except (LookupError, TypeError) as error:
        return {"error": {"code": -32602, "message": f"wrong params of {method}: {error!r}"}}


while True:
    message = backlog.popleft() if backlog else receive()
    if message.get("method") is not None and message.get("id") is not None:  # else nobody waits for an answer
        send(id=message["id"], **answer(message["method"], message.get("params")))
