"""Time under a test's control: hours pass in an instant, and only when the test says so."""

from __future__ import annotations

from collections.abc import Callable

from plughost._util.timers import HeapTimer, Timers


class VirtualClock:
    """Drop-in for the host's clock: `Host(clock=VirtualClock())`."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._timers = Timers()

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> HeapTimer:
        return self._timers.add(when, callback)

    def close(self) -> None:
        """Nothing to give back."""

    def advance(self, seconds: float) -> None:
        """Let time pass: everything that falls due runs, in order, each at its own moment."""
        end = self._now + seconds
        while (due := self._timers.take(end)) is not None:
            when, callback = due
            self._now = max(self._now, when)
            callback()
        self._now = end

    @property
    def pending(self) -> list[float]:
        """When something is due, soonest first, in seconds from now."""
        return [when - self._now for when in self._timers.all_due()]
