"""Time as a value that tests replace: nothing below asks the event loop for it directly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic seconds, and something to do at one of them."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...


class LoopClock:
    """The running event loop's own clock."""

    __slots__ = ("call_at", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time
        self.call_at: Callable[[float, Callable[[], object]], Timer] = loop.call_at
