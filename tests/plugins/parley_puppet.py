"""A plugin of the outside contract `parley` that does as it is told. Standard library only."""

import json
import os
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
last = [0]


def send(message):
    body = json.dumps(message).encode()
    with lock:
        os.write(1, b"Content-Length: %d\r\n\r\n" % len(body) + body) if len(body) < 60000 else write_all(
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )


def write_all(data):
    while data:
        data = data[os.write(1, data) :]


def read():
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        length = int(line.split(b":")[1])


def ask_host(method, params):
    with lock:
        last[0] += 1
        number = f"p{last[0]}"
    done = waiting[number] = threading.Event()
    send({"id": number, "method": method, "params": params})
    done.wait(30)
    return waiting.pop(number)


def note(text):
    if "log" in os.environ:
        with open(os.environ["log"], "a") as log:
            log.write(text + "\n")


def do(number, method, params):
    if method == "echo":
        send({"id": number, "result": params})
    elif method == "pid":
        send({"id": number, "result": [os.getpid(), os.environ.get("generation")]})
    elif method == "sleep":
        time.sleep(params)
        send({"id": number, "result": "slept"})
    elif method == "until":  # a file is there
        while not os.path.exists(params):
            time.sleep(0.002)
        send({"id": number, "result": "slept"})
    elif method == "silent":
        pass
    elif method == "fail":
        send({"id": number, "error": params})
    elif method == "exit":
        os._exit(params)
    elif method == "raw":
        write_all(params.encode("latin-1"))
    elif method == "ask":
        reply = ask_host(params["method"], params["params"])
        send({"id": number, "result": reply})
    elif method == "flood":
        for n in range(params):
            send({"method": "tick", "params": n})
        send({"id": number, "result": params})
    elif method == "burst":
        ticks = [b'{"method":"tick","params":%d}' % n for n in range(params)]
        write_all(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(tick), tick) for tick in ticks))
        send({"id": number, "result": params})
    elif method == "ask_many":
        for n in range(params):
            send({"id": f"m{n}", "method": "host/slow", "params": {}})
        note("asked all")
        send({"id": number, "result": params})
    elif method == "deaf":
        send({"id": number, "result": None})
        time.sleep(60)
    elif method == "bye":
        note("bye")
        if os.environ.get("rude") == "1":
            return
        send({"id": number, "result": {}})
    else:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})


if os.environ.get("crash_at_start"):
    sys.stderr.write("cannot start today\n")
    sys.exit(int(os.environ["crash_at_start"]))
while (message := read()) is not None:
    note(json.dumps(message))
    method = message.get("method")
    if method == "hello":
        if os.environ.get("handshake") == "refuse":
            send({"id": message["id"], "error": {"code": 1, "message": "no"}})
        elif os.environ.get("handshake") == "never":
            pass
        else:
            if os.environ.get("handshake") == "asks first":
                send({"id": "early", "method": "host/add", "params": {"a": 1, "b": 2}})
                note(json.dumps(read()))
            send({"id": message["id"], "result": {}})
    elif method is None:
        number = message["id"]
        done = waiting.get(number)
        if done is not None:
            waiting[number] = message
            done.set()
    elif "id" in message:
        if method in ("ask", "sleep"):
            threading.Thread(target=do, args=(message["id"], method, message.get("params"))).start()
        else:
            do(message["id"], method, message.get("params"))
note("EOF")
if os.environ.get("rude") == "1":
    time.sleep(60)
