"""Collects the denial records of one plugin's watchers, classifies them in a thread, and reports them;
bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from plughost.clock import Clock
from plughost.sandbox.denials import classify, local_fs
from plughost.sandbox.denials.classify import Denial
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.sandbox.resolve.shebang import interpreter

MOST_WAITING = 256
"""Records; more are dropped, as a watcher drops records when its pipe is full."""
MOST_REPORTED = 64
"""Denials of one generation that are reported. A plugin that is refused more needs a directory."""
FORGOTTEN_AFTER = 60.0
"""Seconds. A path is looked up once in this time, however many processes ask for it."""

Report = Callable[[Denial | None], None]


class DenialCollector:
    """The collector of one plugin. `collect` returns at once; files are looked up in a thread, a batch at a
    time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[str, str, VisibleAccess, Report]] = []
        self._looked: set[tuple[str, str]] = set()
        self._since = clock.time()
        self._generation = 0
        self._reported: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def collect(self, records: list[bytes], generation: int, visible: VisibleAccess, tell: Report) -> None:
        """Queue records of the watcher. `tell` is called with each denial, and once with None when there are
        too many to report."""
        if generation > self._generation or self._clock.time() >= self._since + FORGOTTEN_AFTER:
            self._looked.clear()
            self._since = self._clock.time()
        if generation > self._generation:
            self._reported.clear()
            self._generation = generation
        for record in records:
            known = classify.parse(record)
            if (
                known is None
                or known in self._looked
                or len(self._waiting) >= MOST_WAITING
                or not classify.needs_lookup(*known, visible)
            ):
                continue
            if len(self._looked) < MOST_WAITING:
                self._looked.add(known)
            self._waiting.append((*known, visible, tell))
        if self._waiting and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._classify_waiting())

    async def close(self) -> None:
        """Returns when everything that was collected is reported."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _classify_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                for found, tell in await asyncio.to_thread(_classify_batch, batch):
                    self._report(found, tell)
        finally:
            self._task = None

    def _report(self, found: Denial, tell: Report) -> None:
        what = (found.kind, found.real)
        if what in self._reported or len(self._reported) > MOST_REPORTED:
            return
        self._reported.add(what)
        tell(found if len(self._reported) <= MOST_REPORTED else None)


def _classify_batch(batch: list[tuple[str, str, VisibleAccess, Report]]) -> list[tuple[Denial, Report]]:
    found: list[tuple[Denial, Report]] = []
    lstat = local_fs.look()
    for letter, path, visible, tell in batch:
        try:
            denial = classify.classify_denial(letter, path, visible, lstat, interpreter)
        except OSError:
            continue  # the file was removed meanwhile
        if denial is not None:
            found.append((denial, tell))
    return found
