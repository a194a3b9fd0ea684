"""A rune plugin in pieces. Each canary does one thing its own way; `echo` is its tool."""

import json
import os
import sys

MANIFEST = {
    "plugin_id": "canary." + os.path.basename(os.getcwd()),
    "plugin_version": "1.0.0",
    "protocol_version": "rterm.plugin.v1",
    "exposed_tools": ["echo"],
    "capabilities": ["tool.execute"],
}


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def greet(**manifest):
    """Answer the handshake; what it asked for."""
    asked = json.loads(sys.stdin.buffer.readline())
    send({"type": "handshake", "manifest": {**MANIFEST, **manifest}})
    return asked


def execute(request):
    response = {"type": "response", "request_id": request["request_id"]}
    if request["tool_name"] != "echo":
        error = {"code": "not_found", "message": "there is only echo"}
        return {**response, "status": "error", "error": error}
    return {**response, "status": "ok", "output": request["input"]}


def answer(execute=execute):
    """Answer the one request, if it comes."""
    line = sys.stdin.buffer.readline()
    if line:
        send(execute(json.loads(line)))
    sys.stdin.read()  # until the host is done: an early exit can cost it the answer
