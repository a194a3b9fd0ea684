"""Clocks: monotonic time and timers behind a protocol, so that tests can use a virtual clock.

Nothing else in plughost asks the event loop for the time.
"""

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
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Monotonic time in seconds, and callbacks scheduled at a time."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer: ...

    def close(self) -> None: ...


FAR = 3e7
"""Seconds, about a year: the kernel timer is never set further ahead."""


class KernelClock:
    """A clock whose timers share one timerfd of the kernel, so that the event loop has no timers of its own.

    With a timer pending in the loop, asyncio computes a timeout in every pass and the kernel sets one
    up in every wait: a tenth of the cost of a call, and deadlines are always pending.
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
            return  # closed together with its host: no timer fires any more
        self._armed = when
        # Zero would disarm the timer. A time that is years away is set again in a year.
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
            next_due = self._timers.next_due()
            if next_due is not None and (self._armed is None or next_due < self._armed):
                self._arm(next_due)

    def close(self) -> None:
        """Close the descriptor; no timer fires any more."""
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class LoopClock:
    """A clock that uses the event loop's own timers, where there is no timerfd."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time
        self.call_at: Callable[[float, Callable[[], object]], Timer] = loop.call_at

    def close(self) -> None:
        """There is nothing to close."""


def best_clock(loop: asyncio.AbstractEventLoop) -> Clock:
    """A KernelClock on Linux, a LoopClock elsewhere."""
    try:
        return KernelClock(loop)
    except (OSError, AttributeError):  # no timerfd: not Linux
        return LoopClock(loop)


async def done_within(clock: Clock, seconds: float, work: asyncio.Future[Any]) -> bool:
    """Wait for `work` for at most `seconds`; whether it is done. It is not cancelled when it is not."""
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
