"""DeadlineTimer: one timer for the earliest of many deadlines. A timer per call would cost more than the
call."""

from __future__ import annotations

from collections.abc import Callable

from plughost.clock import Clock, Timer
from plughost.wire.ledger import FOREVER


class DeadlineTimer:
    """Calls `sweep` at the earliest deadline that was set; `sweep` returns the next deadline."""

    __slots__ = ("_clock", "_sweep", "_timer", "when")

    def __init__(self, clock: Clock, sweep: Callable[[], float]) -> None:
        self._clock = clock
        self._sweep = sweep
        self._timer: Timer | None = None
        self.when = FOREVER
        """The time at which the timer fires; FOREVER when it is not set."""

    def by(self, deadline: float) -> None:
        """Fire at `deadline`, if that is earlier than the time set so far."""
        if deadline < self.when:
            self.cancel()
            self.when = deadline
            self._timer = self._clock.call_at(deadline, self._due)

    def _due(self) -> None:
        self._timer = None
        self.when = FOREVER
        self.by(self._sweep())

    def cancel(self) -> None:
        """Unset the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.when = FOREVER
