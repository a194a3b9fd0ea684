"""A virtual clock: time passes only when the test advances it."""

from __future__ import annotations

from collections.abc import Callable

from plughost._util.timers import HeapTimer, Timers


class VirtualClock:
    """A virtual clock in place of the host's: `Host(clock=VirtualClock())`."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._timers = Timers()

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> HeapTimer:
        return self._timers.add(when, callback)

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def advance(self, seconds: float) -> None:
        """Advances the time: every timer that falls due runs, in order, each at its own time."""
        end = self._now + seconds
        while (due := self._timers.take(end)) is not None:
            when, callback = due
            self._now = max(self._now, when)
            callback()
        self._now = end

    @property
    def pending(self) -> list[float]:
        """When timers are due, soonest first, in seconds from now."""
        return [when - self._now for when in self._timers.all_due()]
