"""It reads a few bytes at a time, and ends its own lines with CRLF."""

import os
import sys

sys.path.insert(0, "..")
import json

import plain


def lines():
    begun = b""
    while data := os.read(0, 700):
        *whole, begun = (begun + data).split(b"\n")
        yield from whole


def send(message):
    sys.stdout.buffer.write(json.dumps(message, ensure_ascii=False).encode() + b"\r\n")
    sys.stdout.buffer.flush()


plain.serve(send=send, lines=lines())
