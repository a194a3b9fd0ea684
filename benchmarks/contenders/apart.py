"""A contender in a process of its own, which measures when it is told to."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchmarks.contenders.contender import Contender
from benchmarks.paths import ROOT


class Apart(Contender):
    """For another environment or another event loop. While it measures, nothing else of ours runs."""

    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = command

    async def open(self) -> None:
        pipe = subprocess.PIPE
        self._client = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        self._do("hello")

    async def close(self) -> None:
        self._client.communicate()

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        times: list[float] = self._do("one_at_a_time", size=size, seconds=seconds)
        return times

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        rate: float = self._do("in_flight", size=size, width=width, seconds=seconds)
        return rate

    def _do(self, what: str, **how: float) -> Any:
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        print(json.dumps({"do": what, **how}), file=self._client.stdin, flush=True)
        said = self._client.stdout.readline()
        if not said:
            raise RuntimeError(f"{self.name} ended without an answer")
        return json.loads(said)
