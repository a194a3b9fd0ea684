"""A plugin as one writes it by hand, with the standard library alone; and the other end of a raw pipe.

`plain.py raw` sends back whatever comes; `plain.py lines` does what each request asks for.
"""

from __future__ import annotations

import json
import os
import sys

from deeds import DEEDS

CHUNK = 65536


def raw() -> None:
    while chunk := os.read(0, CHUNK):
        os.write(1, chunk)


def lines() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        text = DEEDS[request["method"]](request["params"]["text"])
        answer = json.dumps({"id": request["id"], "result": {"text": text}})
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    {"raw": raw, "lines": lines}[sys.argv[1]]()
