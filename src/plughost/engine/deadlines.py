"""One timer for the earliest of many deadlines: a timer per call would cost more than the call."""

from __future__ import annotations

from collections.abc import Callable

from plughost.clock import Clock, Timer
from plughost.wire.ledger import FOREVER


class DeadlineTimer:
    """Calls `sweep` once the earliest deadline it was told of has come; it answers the next one."""

    __slots__ = ("_clock", "_sweep", "_timer", "when")

    def __init__(self, clock: Clock, sweep: Callable[[], float]) -> None:
        self._clock = clock
        self._sweep = sweep
        self._timer: Timer | None = None
        self.when = FOREVER
        """When it is due; whoever has an earlier deadline tells it with `by`."""

    def by(self, deadline: float) -> None:
        if deadline < self.when:
            self.cancel()
            self.when = deadline
            self._timer = self._clock.call_at(deadline, self._due)

    def _due(self) -> None:
        self._timer = None
        self.when = FOREVER
        self.by(self._sweep())

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.when = FOREVER
