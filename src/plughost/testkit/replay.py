"""`python -m plughost.testkit.replay TRAFFIC`: a fake plugin that says again what a real one has said.

It waits for what the host said then, and answers as the plugin did. What differs ends it, with its reason on
stderr.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from plughost.testkit.traffic import Traffic


def play(traffic: Traffic, receive: int = 0, send: int = 1) -> str | None:
    """Why it could not go on; None at its end."""
    for number, passage in enumerate(traffic.passages, 1):
        data = passage.data.encode("latin-1")
        if passage.way == "in":
            while data:
                data = data[os.write(send, data) :]
            continue
        heard = b""
        while len(heard) < len(data) and (piece := os.read(receive, len(data) - len(heard))):
            heard += piece
        if heard != data:
            return f"passage {number}: the host said {heard!r:.300}, not {data!r:.300}"
    while os.read(receive, 65536):  # until the host is done, too
        pass
    return None


if __name__ == "__main__":
    sys.exit(play(Traffic.load(Path(sys.argv[1]))))
