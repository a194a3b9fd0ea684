"""How far it is."""

from __future__ import annotations

import sys
from time import perf_counter

BEGAN = perf_counter()


def progress(line: str) -> None:
    print(f"{perf_counter() - BEGAN:4.0f} s  {line}", file=sys.stderr, flush=True)
