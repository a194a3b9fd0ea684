#!/usr/bin/env python3
"""The reference rune plugin: one process per call; the tool `echo` returns its input."""

import json
import sys


def send(message):
    print(json.dumps(message), flush=True)


def answer(request, **rest):
    send({"type": "response", "request_id": request["request_id"], **rest})


json.loads(sys.stdin.readline())  # the host compares the versions, not the plugin
send(
    {
        "type": "handshake",
        "manifest": {
            "plugin_id": "example.echo",
            "plugin_version": "1.0.0",
            "protocol_version": "rterm.plugin.v1",
            "exposed_tools": ["echo", "fail"],
            "capabilities": ["tool.execute"],
        },
    }
)
line = sys.stdin.readline()
if line:
    request = json.loads(line)
    if request["tool_name"] == "echo":
        answer(request, status="ok", output=request["input"], metadata={"context": request["context"]})
    else:
        answer(request, status="error", error={"code": "asked_for", "message": "you asked for it"})
sys.stdin.read()  # until the host is done: an early exit can cost it the answer
