"""The one thing of an instance that is due next by time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from plughost.clock import Clock, Timer


class OneShotTimer:
    """Whatever is set replaces what was set before."""

    __slots__ = ("_clock", "_loop", "_timer")

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._timer: Timer | None = None

    def at(self, when: float, callback: Callable[[], object]) -> None:
        self.cancel()
        self._timer = self._clock.call_at(when, callback)

    def after(self, delay: float, callback: Callable[[], object]) -> None:
        self.at(self._clock.time() + delay, callback)

    def soon(self, delay: float, callback: Callable[[], object]) -> None:
        """By the loop's own clock: what the kernel takes does not follow a test's clock."""
        self.cancel()
        self._timer = self._loop.call_later(delay, callback)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
