"""A rune plugin that plays the script it is given as its first argument (JSON). Standard library only.

Keys: handshake (changes to the manifest, or a raw string), drop (manifest members to leave out),
type, response (members of the answer, or a raw string), log (file to note what was read),
exit (code), and pauses or mischief named `before_handshake`, `before_reply`, `after_handshake`, `after_response`:
"hang", "exit N", "escape PATH", "sleep S", "until PATH", "close_stdin", "stderr N", "say TEXT"; several with ";".
"""

import json
import os
import sys
import time

script = json.loads(open(sys.argv[1][1:]).read() if sys.argv[1].startswith("@") else sys.argv[1])


def write(data):
    if isinstance(data, str):
        data = data.encode("latin-1")
    while data:
        data = data[os.write(1, data) :]


def mischief(when):
    for word in script.get(when, "").split(";"):
        what, _, value = word.strip().partition(" ")
        if what == "hang":
            time.sleep(60)
        elif what == "sleep":
            time.sleep(float(value))
        elif what == "until":
            while not os.path.exists(value):
                time.sleep(0.005)
        elif what == "exit":
            os._exit(int(value))
        elif what == "close_stdin":
            os.close(0)
        elif what == "stderr":
            os.write(2, b"e" * int(value))
        elif what == "say":
            write(value)
        elif what == "escape" and not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
            open(value, "w").close()
            time.sleep(60)


def note(line):
    if "log" in script:
        with open(script["log"], "a") as log:
            log.write(line)


mischief("before_handshake")
line = sys.stdin.readline()
note(line)
handshake = json.loads(line)
mischief("before_reply")
manifest = {
    "plugin_id": "puppet",
    "plugin_version": "1.0.0",
    "protocol_version": handshake["protocol_version"],
    "exposed_tools": ["echo"],
}
if isinstance(script.get("handshake"), str):
    write(script["handshake"])
else:
    manifest.update(script.get("handshake", {}))
    for name in script.get("drop", ()):
        del manifest[name]
    message = {"type": script.get("type", "handshake"), "manifest": manifest}
    write(json.dumps(message) + "\n")
mischief("after_handshake")
line = sys.stdin.readline()
note(line)
if line:
    request = json.loads(line)
    response = script.get("response", {"status": "ok", "output": request["input"]})
    if isinstance(response, str):
        write(response.replace("$ID", request["request_id"]))
    else:
        write(json.dumps({"type": "response", "request_id": request["request_id"], **response}) + "\n")
mischief("after_response")
note(sys.stdin.read() + "EOF\n")
sys.exit(script.get("exit", 0))
