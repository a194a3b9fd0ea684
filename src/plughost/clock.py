"""Time as a value that tests replace: nothing below asks the event loop for it directly."""

from __future__ import annotations

import asyncio
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from plughost._util.timers import HeapTimer, Timers


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic seconds, and something to do at one of them."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...

    def close(self) -> None: ...


FAR = 3e7


class KernelClock:
    """Timers on one descriptor of the kernel's, so that the event loop has none of its own.

    With a timer of its own pending, asyncio computes a timeout in every pass and the kernel sets one
    up in every wait: a tenth of the price of a call. Deadlines are always pending.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = time.monotonic
        self._loop = loop
        self._timers = Timers()
        self._armed: float | None = None
        self._fd = _create()
        loop.add_reader(self._fd, self._due)

    def call_at(self, when: float, callback: Callable[[], object]) -> HeapTimer:
        timer = self._timers.add(when, callback)
        if self._armed is None or when < self._armed:
            self._arm(when)
        return timer

    def _arm(self, when: float) -> None:
        if self._fd < 0:
            return  # closed with its host: nothing is due any more
        self._armed = when
        # Zero would disarm it; what is years away is looked at again in a year.
        _set(self._fd, max(min(when, self.time() + FAR), 1e-9))

    def _due(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            pass
        self._armed = None
        now = self.time()
        try:
            while (due := self._timers.take(now)) is not None:
                due[1]()
        finally:
            following = self._timers.next_due()
            if following is not None and (self._armed is None or following < self._armed):
                self._arm(following)

    def close(self) -> None:
        """Give the descriptor back; nothing is due any more."""
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class LoopClock:
    """The event loop's own timers, where the kernel offers none."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time
        self.call_at: Callable[[float, Callable[[], object]], Timer] = loop.call_at

    def close(self) -> None:
        """Nothing to give back."""


def best_clock(loop: asyncio.AbstractEventLoop) -> Clock:
    try:
        return KernelClock(loop)
    except (OSError, AttributeError):  # no timerfd: not Linux
        return LoopClock(loop)


async def done_within(clock: Clock, seconds: float, work: asyncio.Future[Any]) -> bool:
    """Whether `work` is done before so much time has passed. It goes on either way."""
    if seconds == math.inf:
        await asyncio.wait({work})
        return True
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.time() + seconds, over.cancel)
    try:
        await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        over.cancel()
    return work.done()


if sys.version_info >= (3, 13):

    def _create() -> int:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _set(fd: int, when: float) -> None:
        os.timerfd_settime(fd, flags=os.TFD_TIMER_ABSTIME, initial=when)

else:
    _ABSOLUTE = 1

    def _create() -> int:
        import ctypes

        create = ctypes.CDLL(None, use_errno=True).timerfd_create
        fd: int = create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        return fd

    def _set(fd: int, when: float) -> None:
        import ctypes

        seconds = int(when)
        spec = struct.pack("4q", 0, 0, seconds, int((when - seconds) * 1e9))
        if ctypes.CDLL(None, use_errno=True).timerfd_settime(fd, _ABSOLUTE, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
