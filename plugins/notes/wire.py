"""The kaged protocol on stdin and stdout, for a plugin that does one thing after another."""

import collections
import itertools
import json
import sys

WINDOW = 64
"""Questions to the host at a time: so few fit into the pipe, also while the host is busy answering."""
LONGEST = 4_000_000
"""Bytes of a message. For a longer one the host would end the plugin."""

source, wire = sys.stdin.buffer, sys.stdout.buffer
numbers = itertools.count(1)
backlog = collections.deque()  # what came while the host was being asked


class Refused(Exception):
    """An error reply."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


def serve(about, methods):
    """Answer until the host closes stdin."""
    sys.stdout = sys.stderr  # a stray print ends up in the host's log, not between two messages
    answers = {
        "initialize": lambda params: {**about, "api_version": 1},
        "shutdown": lambda params: {"status": "ok"},
        "health.check": lambda params: {"status": "ok"},
        "ping": lambda params: {"status": "ok"},  # what published plugins know in place of health.check
        **methods,
    }
    while True:
        message = backlog.popleft() if backlog else _receive()
        if message.get("id") is not None:  # else nobody waits for an answer
            try:
                _send(id=message["id"], **_answer(answers, message))
            except Refused as refused:  # it was too long
                _send(id=message["id"], error=refused.error)


def ask(method, params):
    """What the host answers."""
    return next(ask_all(method, [params]))


def ask_all(method, every):
    """What the host answers to the same question with each of the params, in their order."""
    rest = iter(every)
    while window := list(itertools.islice(rest, WINDOW)):
        asked = {next(numbers): params for params in window}
        for number, params in asked.items():
            _send(id=number, method=method, params=params)
        answers = {}
        while len(answers) < len(asked):
            message = _receive()
            if "method" in message or message.get("id") not in asked:
                backlog.append(message)
            else:
                answers[message["id"]] = message
        for number in asked:
            if error := answers[number].get("error"):
                told = {"code": "host_refused", "method": method, "error": error}
                raise Refused(-32000, f"{method}: {error['message']}", told)
            yield answers[number]["result"]


def encoded(value):
    """As it goes over the wire."""
    return json.dumps(value, ensure_ascii=False).encode()


def _send(**message):
    line = encoded({"jsonrpc": "2.0", **message})
    if len(line) > LONGEST:
        told = {"code": "message_too_large", "actual_bytes": len(line), "max_bytes": LONGEST}
        raise Refused(-32000, f"a message of {len(line)} bytes is over the limit of {LONGEST}", told)
    wire.write(line + b"\n")
    wire.flush()


def _receive():
    """The next message. The end of the stream is the end of the plugin."""
    while line := source.readline():
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            _send(id=0, error={"code": -32700, "message": "this line is no JSON"})
            continue
        if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
            return message
        _send(id=0, error={"code": -32600, "message": "this is no JSON-RPC 2.0 message"})
    sys.exit(0)


def _answer(answers, message):
    method, params = message.get("method"), message.get("params", {})
    try:
        encoded(message)
        if not isinstance(method, str):
            raise Refused(-32600, "a request needs a method")
        if method not in answers:
            raise Refused(-32601, f"method not found: {method}")
        if not isinstance(params, dict):
            raise Refused(-32602, f"{method} takes an object as its params")
        return {"result": answers[method](params)}
    except Refused as refused:
        return {"error": refused.error}
    except UnicodeEncodeError:  # an escape may hold one, but nobody would take it from us
        return {"error": {"code": -32602, "message": "half of a character"}}
    except Exception as error:
        return {"error": {"code": -32603, "message": f"Internal error: {error!r}"}}
