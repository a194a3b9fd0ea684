"""What the canaries of ainb have in common: a whole plugin that does nothing, each of them one thing more.

On trial a canary is an example of a plugin that conforms. Where a file `judge` lies beside it, the host is on
trial: the canary watches what the host does, and writes what it thinks of it to `verdict.json`.
Standard library only; everything happens in the order in which it came.
"""

import base64
import collections
import itertools
import json
import os
import pathlib
import sys
import tomllib
import zlib

HERE = pathlib.Path(sys.argv[0]).resolve().parent
MANIFEST = tomllib.loads((HERE / "manifest.toml").read_text())
JUDGE = (HERE / "judge").exists()
AINB_HOME = pathlib.Path(os.environ.get("AINB_HOME") or os.path.expanduser("~/.agents-in-a-box"))
DATA = AINB_HOME / "plugins" / HERE.name
PLACE = DATA if DATA.is_dir() else HERE
"""Where it may write: a host that confines plugins lets them write nowhere else."""
METHOD_NOT_FOUND, INVALID_PARAMS, DENIED, TIMED_OUT = -32601, -32602, -32001, -32002


class Refused(Exception):
    """An error reply: code and message."""


class Wrong(Exception):
    """The host on trial does not do it. The text says what it did instead."""


def expect(condition, otherwise):
    if not condition:
        raise Wrong(otherwise)


def text_of(data):
    return base64.b64encode(data).decode()


def bytes_of(payload):
    """Base64, or numbers: an older form, which nobody should write any more."""
    return bytes(payload) if isinstance(payload, list) else base64.b64decode(payload, validate=True)


class Canary:
    silent = frozenset()
    """Methods that it never answers."""

    def __init__(self):
        self.source, self.wire = sys.stdin.buffer, sys.stdout.buffer
        sys.stdout = sys.stderr  # a stray print ends up in the host's log, not between two frames
        self.numbers = itertools.count(1)
        self.backlog = collections.deque()  # what came while the host was being asked
        self.methods = {
            "plugin/init": self.init,
            "plugin/shutdown": self.shutdown,
            "plugin/render": lambda params: {"buffer": self.buffer(**sides(params["viewport"]))},
            "plugin/cli_dispatch": self.cli_dispatch,
            "plugin/handle_event": lambda params: self.event(params["topic"], bytes_of(params["payload"])),
            "plugin/handle_key": lambda params: None,
        }

    # What a canary does beside nothing

    def started(self):
        """Just after the answer to plugin/init."""

    def judge(self):
        """The same, in a host that is on trial."""

    def event(self, topic, payload):
        """A publish that it is subscribed to."""

    def buffer(self, width, height):
        return {"width": width, "height": height, "cells": []}

    def cli(self, namespace, argv):
        """stdout, stderr, exit code."""
        return b"", f"plugin does not handle namespace `{namespace}`\n".encode(), 2

    def shutdown(self, params):
        return {}

    def init(self, params):
        if JUDGE:
            self.granted = params.get("granted_capabilities")
        about = MANIFEST["plugin"]
        return {name: about[name] for name in ("name", "version", "abi_version")} | {"manifest": MANIFEST}

    def cli_dispatch(self, params):
        namespace, argv = params["namespace"], params["argv"]
        if type(argv) is not list or {type(word) for word in (namespace, *argv)} != {str}:
            raise TypeError("expected a namespace and a list of words")
        out, err, code = self.cli(namespace, argv)
        return {"stdout": text_of(out), "stderr": text_of(err), "exit_code": code}

    # The conversation

    def write(self, data):
        self.wire.write(data)
        self.wire.flush()

    def frame(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def send(self, **message):
        self.write(self.frame(message))

    def tell(self, method, params):
        self.send(method=method, params=params)

    def publish(self, topic, payload):
        self.tell("host/snapshot/publish", {"topic": topic, "payload": text_of(payload)})

    def ask(self, method, params):
        """What the host answers, whole; whatever else it says meanwhile waits for its turn."""
        number = next(self.numbers)
        self.send(id=number, method=method, params=params)
        return self.answer_to(number)

    def answer_to(self, number):
        while "method" in (message := self.receive()) or message.get("id") != number:
            self.backlog.append(message)
        return message

    def receive(self):
        """The next message, empty if it is none. The end of the stream is the end of the plugin."""
        line, length = self.source.readline(), 0
        if not line:
            self.ended()
        while line != b"\r\n":
            name, _, value = line.partition(b":")
            if name.strip().lower() != b"content-length":
                sys.exit(f"not a header: {line!r}")
            length = int(value)
            line = self.source.readline()
        try:
            message = json.loads(self.source.read(length))
        except (ValueError, RecursionError):
            message = None
        return message if isinstance(message, dict) else {}

    def ended(self):
        sys.exit(0)

    def reply(self, method, params):
        try:
            if method not in self.methods:
                raise Refused(METHOD_NOT_FOUND, f"method not found: {method}")
            return {"result": self.methods[method](params)}
        except Refused as refused:
            code, text = refused.args
        except (LookupError, TypeError, ValueError) as error:
            code, text = INVALID_PARAMS, f"wrong params of {method}: {error!r}"
        return {"error": {"code": code, "message": text}}

    def handle(self, message):
        method = message.get("method")
        if method is None:
            return  # it answers nothing that was asked
        reply = self.reply(method, message.get("params"))
        if message.get("id") is not None and method not in self.silent:  # else it was a notification
            self.send(id=message["id"], **reply)
        if method == "plugin/init":
            (self.judge if JUDGE else self.started)()
        if method == "plugin/shutdown" and not JUDGE:
            sys.exit(0)

    def run(self):
        while True:
            try:
                self.handle(self.backlog.popleft() if self.backlog else self.receive())
            except Wrong as wrong:
                self.verdict("failed", str(wrong))

    # A host on trial

    def verdict(self, outcome, reason=""):
        """What it thinks: passed, failed or skipped. The first failure stays."""
        self.conclude(outcome, reason, final=True)

    def conclude(self, outcome, reason, *, final):
        file = PLACE / "verdict.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        if before.get("final") and before["outcome"] == "failed":
            return
        written = PLACE / "verdict.new"
        written.write_text(json.dumps({"outcome": outcome, "reason": reason, "final": final}))
        os.replace(written, file)

    def waiting(self, what):
        """Unless more comes, this is why the host fails."""
        self.conclude("failed", what, final=False)

    def result(self, method, params):
        answer = self.ask(method, params)
        expect("error" not in answer, f"it answered {method} {params} with the error {answer.get('error')}")
        expect(isinstance(answer.get("result"), dict), f"it answered {method} with {answer}: never null")
        return answer["result"]

    def refusal(self, code, method, params, text=""):
        answer = self.ask(method, params)
        error = answer.get("error") or {}
        expect(
            error.get("code") == code, f"it answered {method} {params} with {answer}, not the error {code}"
        )
        told = error["message"]
        expect(text in told, f"it refuses {method} {params} with the words {told!r}, not {text!r}")


def sides(viewport):
    width, height = viewport["width"], viewport["height"]
    if not all(type(side) is int and 0 <= side <= 0xFFFF for side in (width, height)):
        raise ValueError("a viewport has two sides from 0 to 65535")
    return {"width": width, "height": height}


def report_of(*heard):
    """What the partner tells: of a topic and a payload, or as it came."""
    if len(heard) == 1:
        return json.loads(heard[0])
    topic, payload = heard
    return {"topic": topic, "size": len(payload), "crc": zlib.crc32(payload)}
