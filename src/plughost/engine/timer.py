"""OneShotTimer: the single timer of an instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from plughost.clock import Clock, Timer


class OneShotTimer:
    """A timer with one callback: setting it replaces the callback that was set before."""

    __slots__ = ("_clock", "_loop", "_timer")

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._timer: Timer | None = None

    def at(self, when: float, callback: Callable[[], object]) -> None:
        """Call back at a time of the clock."""
        self.cancel()
        self._timer = self._clock.call_at(when, callback)

    def after(self, delay: float, callback: Callable[[], object]) -> None:
        """Call back after `delay` seconds of the clock."""
        self.at(self._clock.time() + delay, callback)

    def soon(self, delay: float, callback: Callable[[], object]) -> None:
        """Call back after `delay` real seconds, by the loop's own clock: the kernel does not follow a test's
        virtual clock."""
        self.cancel()
        self._timer = self._loop.call_later(delay, callback)

    def cancel(self) -> None:
        """Unset the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
