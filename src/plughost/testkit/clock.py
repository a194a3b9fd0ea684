"""Time under a test's control: hours pass in an instant, and only when the test says so."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class VirtualTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """Drop-in for the host's clock: `Host(clock=VirtualClock())`."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._timers: list[tuple[float, int, VirtualTimer]] = []

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass: everything that falls due runs, in order, each at its own moment."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if not timer.cancelled:
                timer.callback()
        self._now = end

    @property
    def pending(self) -> list[float]:
        """When something is due, soonest first, in seconds from now."""
        return sorted(when - self._now for when, _, timer in self._timers if not timer.cancelled)
