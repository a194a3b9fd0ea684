"""The floor: a line into a pipe and the same line out of another, both ends blocking. No host at all."""

from __future__ import annotations

import os
from functools import partial

from benchmarks import payload, timing
from benchmarks.contenders.child import Child
from benchmarks.contenders.contender import Contender

CHUNK = 65536


class RawPipe(Contender):
    pipelines = False

    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = (*command, "raw")

    async def open(self) -> None:
        self._child = Child(self._command)

    async def close(self) -> None:
        self._child.close()

    async def check(self, size: int) -> None:
        self._ping(payload.line(size))

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        line = payload.line(size)
        return timing.one_at_a_time_blocking(partial(self._ping, line), seconds)

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        raise NotImplementedError("one line at a time")

    def _ping(self, line: bytes) -> None:
        os.write(self._child.stdin, line)  # blocking: it takes the whole line
        missing = len(line)
        while missing:
            missing -= len(os.read(self._child.stdout, CHUNK))
