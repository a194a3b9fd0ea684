"""A contender in a process of its own, which measures when it is told to, in whatever language it is written.

An order is a line of JSON on its stdin, the answer a line of JSON on its stdout:

  hello                          {what is measured: its version, ...}
  open           count           [seconds from nothing to a plugin's first answer, ...]; they stay open
  close                          end every plugin
  tidy                           collect garbage
  one_at_a_time  size seconds    [seconds of a call, ...], to the plugin opened last; so below
  in_flight      size width seconds     calls per second
  attempt        method text limit      {"outcome": "answer" | "error" | "hangs", "said": ...}
"""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import processes
from benchmarks.contenders.contender import Contender
from benchmarks.paths import ROOT

PATIENCE = 60.0
"""Seconds for an order."""
GRACE = 5.0
"""Seconds for the end."""


class Failed(Exception):
    """A contender in a process of its own does not answer."""

    def __init__(self, contender: str, why: str) -> None:
        super().__init__(f"{contender}: {why}")
        self.contender = contender
        self.why = why


class Apart(Contender):
    """For another environment, event loop or language. While it measures, nothing else of ours runs."""

    def __init__(self, name: str, command: tuple[str, ...], pipelines: bool = True) -> None:
        self.name = name
        self.pipelines = pipelines
        self._command = command
        self._family: set[processes.Process] = set()

    async def open(self) -> None:
        self.start()
        self.do("open", count=1)

    def start(self) -> dict[str, str]:
        """The process, without a plugin; what runs in it, by version."""
        self._stderr = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - until its end
        pipe = subprocess.PIPE
        try:
            self._client = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True, cwd=ROOT
            )
        except OSError as error:
            raise Failed(self.name, str(error)) from error
        try:
            versions: dict[str, str] = self.do("hello")
        except Failed:
            self.end()
            raise
        return versions

    @contextmanager
    def started(self) -> Iterator[dict[str, str]]:
        versions = self.start()
        try:
            yield versions
        finally:
            self.end()

    @property
    def pid(self) -> int:
        return self._client.pid

    @property
    def lives(self) -> bool:
        return self._client.poll() is None

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """By the end of its stdin; by force, with all that it started, if that does not help."""
        self._family.update(processes.below(self.pid))
        try:
            self._client.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self._client.kill()
            self._client.communicate()
        processes.kill(self._family)
        self._stderr.close()

    def kill(self) -> None:
        """At once, and nothing but the process itself."""
        self._client.kill()
        self._client.wait()

    async def check(self, size: int) -> None:
        self.do("one_at_a_time", size=size, seconds=0)

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        times: list[float] = self.do("one_at_a_time", size=size, seconds=seconds)
        return times

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        rate: float = self.do("in_flight", size=size, width=width, seconds=seconds)
        return rate

    def do(self, what: str, **how: float | str) -> Any:
        self.tell(what, **how)
        answer = self.hear()
        if what == "open":
            self._family.update(processes.below(self.pid))  # should it die, nobody could find them any more
        return answer

    def tell(self, what: str, **how: float | str) -> None:
        assert self._client.stdin is not None
        try:
            print(json.dumps({"do": what, **how}), file=self._client.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(self.name, self._last_words()) from None

    def hear(self, patience: float = PATIENCE) -> Any:
        """The answer to what it was told last."""
        assert self._client.stdout is not None
        if not select.select([self._client.stdout], [], [], patience)[0]:
            raise Failed(self.name, f"no answer within {patience:g} s")
        said = self._client.stdout.readline()
        if not said:
            raise Failed(self.name, self._last_words())
        return json.loads(said)

    def _last_words(self) -> str:
        self._client.wait(PATIENCE)
        self._stderr.seek(0)
        lines = [line.strip() for line in self._stderr if line.strip()]
        return lines[-1] if lines else f"ended with {self._client.returncode} and without a word"
