"""The least a Python plugin can cost: blocking reads and writes, msgspec, nothing else.

`echo.py raw` sends every line back as it is; `echo.py lines` and `echo.py content-length` answer
requests with their own params. Everything that one read completes is answered by one write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec

CHUNK = 65536


class Request(msgspec.Struct):
    id: int
    params: msgspec.Raw


class Reply(msgspec.Struct):
    id: int
    result: msgspec.Raw


def echo_raw() -> None:
    for lines in whole_lines():
        write(lines)


def echo_lines() -> None:
    decode, decode_lines = msgspec.json.Decoder(Request).decode, msgspec.json.Decoder(Request).decode_lines
    encode, encode_lines = msgspec.json.Encoder().encode, msgspec.json.Encoder().encode_lines
    for lines in whole_lines():
        if lines.find(b"\n") + 1 == len(lines):  # one request, the usual case when nothing is pipelined
            request = decode(lines)
            write(encode(Reply(request.id, request.params)) + b"\n")
        else:
            write(encode_lines([Reply(request.id, request.params) for request in decode_lines(lines)]))


def whole_lines() -> Iterator[bytes]:
    """As many as there are, once the last one is whole: what it lacks is on its way."""
    begun: list[bytes] = []
    while chunk := os.read(0, CHUNK):
        if not chunk.endswith(b"\n"):
            begun.append(chunk)
        elif begun:
            yield b"".join((*begun, chunk))
            begun.clear()
        else:
            yield chunk


def echo_content_length() -> None:
    decode = msgspec.json.Decoder(Request).decode
    encode = msgspec.json.Encoder().encode
    held = bytearray()
    awaited = 0
    while chunk := os.read(0, CHUNK):
        held += chunk
        if len(held) < awaited:
            continue
        bodies, awaited = take_bodies(held)
        replies = []
        for body in bodies:
            request = decode(body)
            reply = encode(Reply(request.id, request.params))
            replies.append(b"Content-Length: %d\r\n\r\n%b" % (len(reply), reply))
        write(b"".join(replies))


def take_bodies(held: bytearray) -> tuple[list[bytes], int]:
    """The whole bodies in `held`, which keeps the rest; and how long that must get, if that is known."""
    bodies: list[bytes] = []
    taken = awaited = 0
    while (blank := held.find(b"\r\n\r\n", taken)) >= 0:
        start = blank + 4
        stop = start + int(held[held.index(b":", taken) + 1 : blank])
        if stop > len(held):
            awaited = stop - taken
            break
        bodies.append(bytes(held[start:stop]))
        taken = stop
    del held[:taken]
    return bodies, awaited


def write(data: bytes) -> None:
    while len(data) > (written := os.write(1, data)):
        data = data[written:]


if __name__ == "__main__":
    {"raw": echo_raw, "lines": echo_lines, "content-length": echo_content_length}[sys.argv[1]]()
