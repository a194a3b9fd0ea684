"""A terminal that nobody looks at, for programs that draw."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from typing import Any

from benchmarks.paths import ROOT

TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run(program: str, *arguments: object, columns: int = 80, rows: int = 25) -> tuple[dict[str, Any], int]:
    """What the fresh program of that name printed, and how many bytes it drew."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-m", f"benchmarks.fresh.{program}", *map(str, arguments)]
    drawn = [0]

    def look() -> None:
        try:
            while data := os.read(ours, 1 << 16):
                drawn[0] += len(data)
        except OSError:  # its side is closed
            pass

    looking = threading.Thread(target=look)
    looking.start()
    try:
        said = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **TERMINAL}, stdin=its, stderr=its, stdout=subprocess.PIPE,
            check=True, start_new_session=True,
        ).stdout  # fmt: skip
    finally:
        os.close(its)
        looking.join()
        os.close(ours)
    result: dict[str, Any] = json.loads(said)
    return result, drawn[0]
