"""An mcptest plugin that does whatever a test tells it to, well or badly. Standard library only."""

import json
import os
import signal
import sys
import time


def say(data):
    os.write(1, data)


def answer(number, result):
    say(json.dumps({"id": number, "result": result}).encode() + b"\n")


def escape(path, how):
    """Leave a descendant that tries to survive, and note its pid (as seen from inside)."""
    if os.fork():
        return
    if how != "child":
        os.setsid()
        if os.fork():
            os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(60)


def do(number, method, params):
    if method == "echo":
        answer(number, params)
    elif method == "ping":
        answer(number, "pong")
    elif method == "sleep":
        time.sleep(params)
        answer(number, "slept")
    elif method == "until":  # a file is there
        while not os.path.exists(params):
            time.sleep(0.002)
        answer(number, "slept")
    elif method == "silent":
        pass
    elif method == "raw":  # write these bytes and nothing else
        for piece in params:
            say(piece.encode("latin-1").replace(b"$ID", str(number).encode()))
    elif method == "error":
        say(json.dumps({"id": number, "error": params}).encode() + b"\n")
    elif method == "exit":
        os._exit(params)
    elif method == "die":
        os.kill(os.getpid(), params)
    elif method == "half":  # half an answer, then the end
        say(b'{"id":%d,"resu' % number)
        os._exit(0)
    elif method == "close_stdout":
        os.close(1)
        time.sleep(60)
    elif method == "close_stdin":
        os.close(0)
        answer(number, None)
        time.sleep(60)
    elif method == "stderr":
        sys.stderr.write(params)
        sys.stderr.flush()
        answer(number, None)
    elif method == "flood_stderr":
        block = b"e" * 65535 + b"\n"
        for _ in range(params):
            os.write(2, block)
        answer(number, params)
    elif method == "escape":
        escape(params["path"], params["how"])
        answer(number, None)
    elif method == "about":
        answer(
            number,
            {
                "env": dict(os.environ),
                "cwd": os.getcwd(),
                "argv": sys.argv,
                "pid": os.getpid(),
                "fds": sorted(
                    int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")
                ),
            },
        )
    elif method == "big":
        say(b'{"id":%d,"result":"%s"}\n' % (number, b"x" * params))
    elif method == "long_line":
        block = b"z" * 65536
        for _ in range(params // len(block)):
            say(block)
        say(b"\n")
    elif method == "deaf":
        answer(number, None)
        time.sleep(60)
    elif method == "stubborn":  # ignore EOF and polite signals
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        answer(number, None)
        while True:
            time.sleep(60)
    elif method == "batch":  # answer the last `params` requests in reverse order
        held.append(number)
        if len(held) == params:
            while held:
                answer(held.pop(), "batched")


held = []
for line in sys.stdin:
    request = json.loads(line)
    if "log" in os.environ:
        with open(os.environ["log"], "a") as log:
            log.write(line)
    do(request["id"], request["method"], request.get("params"))
