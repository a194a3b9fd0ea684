"""What is due when: a heap of callbacks, under whatever clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class HeapTimer:
    """One callback; cancelling forgets it."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    """Callbacks in the order they fall due; those of the same moment in the order they were set."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HeapTimer]] = []
        self._order = itertools.count()

    def add(self, when: float, callback: Callable[[], object]) -> HeapTimer:
        timer = HeapTimer(callback)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        return timer

    def next_due(self) -> float | None:
        """When the next callback falls due; None when there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def all_due(self) -> list[float]:
        return sorted(when for when, _, timer in self._heap if timer.callback is not None)

    def take(self, now: float) -> tuple[float, Callable[[], object]] | None:
        """The next callback that is due by `now`, no longer in the heap."""
        while self._heap and self._heap[0][0] <= now:
            when, _, timer = heapq.heappop(self._heap)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                return when, callback
        return None
