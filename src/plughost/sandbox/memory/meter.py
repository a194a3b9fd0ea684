"""The memory meter: the host sums the memory of process trees itself, where no control group limits them.

One timer serves all plugins of a host, and none runs while nothing is metered. A plugin far below its limit
is measured less often: each process is limited by itself, so a tree cannot pass the limit in no time. A tree
with many processes is measured in pieces, with other work of the event loop in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from plughost.clock import Clock, Timer
from plughost.sandbox.memory.process_tree import memory_of

SHORTEST, LONGEST = 0.1, 1.0
"""Seconds between two measurements of one plugin, at least and at most."""
PIECE = 16
"""Processes that are measured at a time."""
BREATH = 0.002
"""Seconds between two pieces."""


class MeteredTree:
    """A process tree with a memory limit: `roots` returns its first processes, `over` is called with the
    bytes used once they exceed `limit`."""

    __slots__ = ("due", "limit", "look", "over", "roots", "used")

    def __init__(self, limit: int, roots: Callable[[], Iterable[int]], over: Callable[[int], object]) -> None:
        self.limit = limit
        self.roots = roots
        self.over = over
        self.due = 0.0
        self.look: Iterator[int] | None = None
        """The rest of a measurement that was begun."""
        self.used = 0
        """The bytes found so far in this measurement."""


class MemoryMeter:
    """Measures every tree that was `started` until its processes are gone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[MeteredTree, None] = {}
        self._timer: Timer | None = None

    def started(self, watched: MeteredTree) -> None:
        """Begin to measure a tree: one of its processes runs now."""
        self._running[watched] = None
        watched.due = self._clock.time() + SHORTEST
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running:
            self._timer = self._clock.call_at(min(each.due for each in self._running), self._measure_due)

    def _measure_due(self) -> None:
        self._timer = None
        now = self._clock.time()
        try:
            for watched in [*self._running]:
                if watched.due <= now:
                    self._measure(watched, now)
        finally:
            self._schedule()

    def _measure(self, watched: MeteredTree, now: float) -> None:
        if watched.look is None:
            roots = list(watched.roots())
            if not roots:
                del self._running[watched]
                return
            watched.look, watched.used = memory_of(roots), 0
        piece = list(islice(watched.look, PIECE))
        watched.used += sum(piece)
        over = watched.used > watched.limit
        if len(piece) == PIECE and not over:
            watched.due = now + BREATH
            return
        watched.look = None
        watched.due = now + max(SHORTEST, LONGEST * (1 - 2 * watched.used / watched.limit))
        if over:
            watched.over(watched.used)
