"""A rune plugin that behaves like the published reference plugins: it exits when it does not know the protocol
version, and cuts a text in the middle of an emoji, as JavaScript does. Standard library only."""

import json
import sys

PROTOCOL = "rterm.plugin.v1"


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")  # with escapes for all that is not ASCII
    sys.stdout.flush()


handshake = json.loads(sys.stdin.readline())
if handshake.get("protocol_version") != PROTOCOL:
    sys.exit(f"unsupported protocol version: {handshake.get('protocol_version')}")
send(
    {
        "type": "handshake",
        "manifest": {
            "plugin_id": "wild",
            "plugin_version": "0.1.0",
            "protocol_version": PROTOCOL,
            "exposed_tools": ["excerpt"],
        },
    }
)
line = sys.stdin.readline()
if line:
    request = json.loads(line)
    response = {"type": "response", "request_id": request["request_id"]}
    if request["tool_name"] == "excerpt":
        units = request["input"].get("text", "").encode("utf-16-le")[:6]
        response |= {"status": "ok", "output": units.decode("utf-16-le", "surrogatepass")}
    else:
        response |= {"status": "error", "error": {"code": "not_found", "message": "no such tool"}}
    send(response)
sys.stdin.read()
