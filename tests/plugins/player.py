"""A plugin that plays the steps it is given as its first argument (JSON). Standard library only.

["line"] or ["message"] takes one line or one Content-Length message and remembers its id;
["write", TEXT] writes TEXT (latin-1), with $ID for that id; ["kill"] ends it by SIGKILL, ["exit", N]
by itself; ["close", FD] closes a descriptor; ["hold"] leaves a child that keeps everything open;
["wait"] does nothing until stdin ends, ["sleep"] not even then.
"""

import json
import os
import signal
import sys
import time

steps = json.loads(open(sys.argv[1][1:]).read() if sys.argv[1].startswith("@") else sys.argv[1])
number = None


def write(data):
    while data:
        data = data[os.write(1, data) :]


def read_line():
    line = b""
    while not line.endswith(b"\n"):  # not a byte more than the line: what is not read stays in the pipe
        byte = os.read(0, 1)
        if not byte:
            sys.exit(7)
        line += byte
    return line


def read_message():
    length = 0
    while (line := read_line()) != b"\r\n":
        length = int(line.split(b":")[1])
    body = b""
    while len(body) < length:
        body += os.read(0, length - len(body))
    return body


for step, *words in steps:
    if step in ("line", "message"):
        message = json.loads(read_line() if step == "line" else read_message())
        number = message.get("id", message.get("request_id"))
    elif step == "write":
        write(words[0].replace("$ID", str(number)).encode("latin-1"))
    elif step == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif step == "exit":
        os._exit(words[0])
    elif step == "close":
        os.close(words[0])
    elif step == "hold":
        if os.fork() == 0:
            time.sleep(60)
    elif step == "wait":
        while os.read(0, 65536):
            pass
    elif step == "sleep":
        time.sleep(60)
