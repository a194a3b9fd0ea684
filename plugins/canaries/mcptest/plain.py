"""An mcptest plugin in pieces. Each canary does one thing its own way; `echo` is its method."""

import json
import sys


def answer(line):
    try:
        request = json.loads(line)
    except ValueError as error:
        return refusal(None, -32700, str(error))
    if request["method"] != "echo":
        return refusal(request["id"], -32601, "there is only echo")
    return {"id": request["id"], "result": request.get("params")}


def refusal(number, code, message):
    return {"id": number, "error": {"code": code, "message": message}}


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def serve(answer=answer, send=send, lines=sys.stdin.buffer):
    for line in lines:
        send(answer(line))
