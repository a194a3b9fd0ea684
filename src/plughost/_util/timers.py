"""A timer heap: callbacks in the order they are due, for any clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class HeapTimer:
    """A callback in the heap, which can be cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """The heap of timers; those of the same time run in the order they were added."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HeapTimer]] = []
        self._order = itertools.count()

    def add(self, when: float, callback: Callable[[], object]) -> HeapTimer:
        """Add a callback at a time."""
        timer = HeapTimer(callback)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        return timer

    def next_due(self) -> float | None:
        """The time of the next timer; None when there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def all_due(self) -> list[float]:
        """The times of all timers, in order."""
        return sorted(when for when, _, timer in self._heap if timer.callback is not None)

    def take(self, now: float) -> tuple[float, Callable[[], object]] | None:
        """Remove and return the next callback that is due at `now`, with its time; None when there is
        none."""
        while self._heap and self._heap[0][0] <= now:
            when, _, timer = heapq.heappop(self._heap)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                return when, callback
        return None
