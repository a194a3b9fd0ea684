"""What one plugin was refused, heard from its watchers and told, off the event loop and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from plughost.clock import Clock
from plughost.sandbox.denials import classify, local_fs
from plughost.sandbox.denials.classify import Denial
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.sandbox.resolve.shebang import interpreter

MOST_WAITING = 256
"""Records; more are dropped, as their watcher drops what finds its pipe full."""
MOST_TOLD = 64
"""Denials of one generation. Who is refused more wants a folder."""
FORGOTTEN_AFTER = 60.0
"""Seconds. A path is looked at once in this time, however many processes ask for it."""

Tell = Callable[[Denial | None], None]


class DenialCollector:
    """One plugin's. `hear` returns at once; files are looked at in a thread, a batch at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[str, str, VisibleAccess, Tell]] = []
        self._looked: set[tuple[str, str]] = set()
        self._since = clock.time()
        self._generation = 0
        self._told: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    def collect(self, records: list[bytes], generation: int, reach: VisibleAccess, tell: Tell) -> None:
        """`tell` is called with each denial, and with None when there are more than will be told."""
        if generation > self._generation or self._clock.time() >= self._since + FORGOTTEN_AFTER:
            self._looked.clear()
            self._since = self._clock.time()
        if generation > self._generation:
            self._told.clear()
            self._generation = generation
        for record in records:
            known = classify.parse(record)
            if (
                known is None
                or known in self._looked
                or len(self._waiting) >= MOST_WAITING
                or not classify.is_worth_a_look(*known, reach)
            ):
                continue
            if len(self._looked) < MOST_WAITING:
                self._looked.add(known)
            self._waiting.append((*known, reach, tell))
        if self._waiting and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._judge())

    async def close(self) -> None:
        """Returns when all that was heard is told."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _judge(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                for found, tell in await asyncio.to_thread(_judged, batch):
                    self._tell(found, tell)
        finally:
            self._task = None

    def _tell(self, found: Denial, tell: Tell) -> None:
        what = (found.kind, found.real)
        if what in self._told or len(self._told) > MOST_TOLD:
            return
        self._told.add(what)
        tell(found if len(self._told) <= MOST_TOLD else None)


def _judged(batch: list[tuple[str, str, VisibleAccess, Tell]]) -> list[tuple[Denial, Tell]]:
    found: list[tuple[Denial, Tell]] = []
    lstat = local_fs.look()
    for letter, path, reach, tell in batch:
        try:
            judged = classify.classify_denial(letter, path, reach, lstat, interpreter)
        except OSError:
            continue  # it went away meanwhile
        if judged is not None:
            found.append((judged, tell))
    return found
