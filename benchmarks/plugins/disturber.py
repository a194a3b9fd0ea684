"""A neighbour that makes trouble, behind Content-Length headers.

`huge` with a size answers with a string of that many bytes; `flood` with a count sends as many
notifications as fast as it can, then answers.
"""

from __future__ import annotations

import json
import os
import sys

BATCH = 500
"""Notifications per write: about what a pipe holds."""


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def flood(count: int) -> None:
    notification = framed(b'{"method":"progress","params":{"done":1,"of":100,"text":"still at it"}}')
    for _ in range(count // BATCH):
        write(notification * BATCH)
    write(notification * (count % BATCH))


while header := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    request = json.loads(sys.stdin.buffer.read(int(header.partition(b":")[2])))
    result = b"null"
    if request["method"] == "huge":
        result = b'"' + b"x" * request["params"] + b'"'
    elif request["method"] == "flood":
        flood(request["params"])
    write(framed(b'{"id":%d,"result":%b}' % (request["id"], result)))
