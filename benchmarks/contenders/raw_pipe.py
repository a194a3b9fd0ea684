"""The floor: a line into a pipe and the same line out of another, both ends blocking. No host at all."""

from __future__ import annotations

import os
from time import perf_counter

from benchmarks import payload
from benchmarks.contenders.child import Child
from benchmarks.contenders.contender import Contender
from benchmarks.timing import LEAST

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

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        line = payload.line(size)
        self._ping(line)
        times: list[float] = []
        end = perf_counter() + seconds
        began = 0.0
        while began < end or len(times) < LEAST:
            began = perf_counter()
            self._ping(line)
            times.append(perf_counter() - began)
        return times

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        raise NotImplementedError("one line at a time")

    def _ping(self, line: bytes) -> None:
        os.write(self._child.stdin, line)  # blocking: it takes the whole line
        missing = len(line)
        while missing:
            missing -= len(os.read(self._child.stdout, CHUNK))
