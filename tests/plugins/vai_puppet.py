#!/usr/bin/env python3
"""A vai plugin that does as it is told, well or badly. Standard library only.

The variable `hello` says how it begins: an object over the identity in its hello, or never, crash, garbage. The input
of its tool says what it does: {"do": …} with `say` (events), `answer` (the body of its response), `raw` (any bytes).
"""

import json
import os
import sys
import threading

lock = threading.Lock()
open_requests = {}
told = []


def write_all(data):
    with lock:
        while data:
            data = data[os.write(1, data) :]


def send(**frame):
    body = json.dumps({"protocol": "vai.rpc.v1", **frame}).encode()
    write_all(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def read():
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        length = int(line.partition(b":")[2])


def say(id, **event):
    send(type="event", request_id=id, event=event)


def respond(id, body):
    send(type="response", id=id, ok=True, body=body)


def succeeded(**output):
    return {
        "status": "succeeded",
        "result": {"content": [{"type": "text", "text": "done"}], "structured_output": output},
    }


def handle(id, body, cancelled):
    event = body.get("event", {})
    wanted = body.get("input") or event.get("summary") or event
    what = wanted.get("do", "echo")
    if what == "echo":
        respond(id, wanted.get("answer") or succeeded(body=body, told=told, env=dict(os.environ)))
    elif what == "say":
        for number in range(wanted["times"]):
            say(id, type="progress", message=wanted.get("text", "x"), number=number)
        respond(id, succeeded())
    elif what == "late":
        respond(id, succeeded())
        say(id, type="progress", message="too late")
        say("req_99999", type="progress", message="of nobody")
        say("somebody", type="progress", message="of nobody")
    elif what == "refuse":
        send(
            type="response",
            id=id,
            ok=False,
            error={"code": "protocol.invalid_frame", "message": "missing body"},
        )
    elif what == "wait":
        say(id, type="started")
        cancelled.wait()
        if wanted.get("stops", True):
            respond(id, {"status": "cancelled"})
    elif what == "raw":
        write_all(wanted["text"].replace("ID", id).encode())
    elif what == "exit":
        os._exit(wanted.get("code", 3))
    elif what == "read":
        respond(id, succeeded(**{path: seen(path) for path in wanted["paths"]}))


def seen(path):
    try:
        return sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read()
    except OSError as error:
        return error.strerror


def main():
    hello = os.environ.get("hello", "{}")
    read()
    if hello == "crash":
        sys.exit("cannot start today")
    if hello == "garbage":
        write_all(b"Content-Length: 2\r\n\r\n{}")
    elif hello != "never":
        manifest = open(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vai-plugin.toml")
        ).read()
        about = {"package_id": "acme/puppet", "version": "1.0.0", **json.loads(hello)}
        assert "acme/puppet" in manifest
        send(type="hello", role="plugin", plugin=about)
    while True:
        frame = read()
        told.append(frame if frame["type"] != "request" else frame["id"])
        if frame["type"] == "request":
            cancelled = open_requests[frame["id"]] = threading.Event()
            arguments = (frame["id"], frame["body"], cancelled)
            threading.Thread(target=handle, args=arguments, daemon=True).start()
        elif frame["type"] == "cancel":
            open_requests[frame["request_id"]].set()
        elif frame["type"] == "shutdown":
            if os.environ.get("witness"):
                rest = sys.stdin.buffer.read()
                with open(os.environ["witness"], "w") as file:
                    file.write(f"shutdown, then {rest!r}")
            if os.environ.get("rude"):
                threading.Event().wait()
            sys.exit(0)


main()
