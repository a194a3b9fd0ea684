"""An mcptest plugin that takes all it can get of something. Standard library only."""

import json
import mmap
import os
import socket
import sys
import time


def spin():
    while True:
        pass


def fork():
    while True:
        try:
            os.fork()
        except OSError:
            pass


def grow(flags):
    held = []
    while True:
        try:
            block = mmap.mmap(-1, 16 << 20, flags=flags | mmap.MAP_ANONYMOUS)
            for place in range(0, 16 << 20, 4096):
                block[place] = 1
            held.append(block)
        except (OSError, MemoryError):
            time.sleep(0.01)


def memory():
    grow(mmap.MAP_PRIVATE)


def memories():
    for _ in range(8):
        if os.fork() == 0:
            break
    memory()


def shared():
    grow(mmap.MAP_SHARED)


def disk():
    for folder in ("/tmp", "/dev/shm"):
        try:
            with open(folder + "/filler", "wb") as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            continue
    while True:
        time.sleep(0.001)


def files():
    while True:
        try:
            os.dup(0)
        except OSError:
            time.sleep(0.01)


def line():
    """A gigabyte without an end."""
    block = b"z" * (1 << 20)
    for _ in range(1024):
        os.write(1, block)


def connections():
    """Ten thousand of them to its proxy, as many as it may have at a time."""
    port = int(os.environ["HTTPS_PROXY"].rpartition(":")[2])
    wires = []
    for _ in range(10_000):
        wire = socket.socket()
        wire.setblocking(False)
        wire.connect_ex(("127.0.0.1", port))
        wires.append(wire)
        if len(wires) > 900:
            wires.pop(0).close()


BOMBS = {
    each.__name__: each for each in (spin, fork, memory, memories, shared, disk, files, line, connections)
}

for request in map(json.loads, sys.stdin):
    if request["method"] == "bomb":
        BOMBS[request["params"]]()
    print(json.dumps({"id": request["id"], "result": "here"}), flush=True)
