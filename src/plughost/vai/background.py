"""BackgroundTask: work that runs when it is woken, one run at a time, and again after a while.

Deliveries, hooks and leases look at the database this way: at once when something is new, and every few
seconds for what another process has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from plughost.clock import Clock, Timer


class BackgroundTask:
    """Runs `work` after `wake`. Woken during a run, it runs once more afterwards.

    `work` returns the seconds until the next run, or None to wait for `wake`. When it fails, `failure` is
    reported to the event loop's exception handler, and it runs again after `retry_seconds`, not earlier.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[float | None]],
        clock: Clock,
        *,
        failure: str,
        retry_seconds: float,
    ) -> None:
        self._work = work
        self._clock = clock
        self._failure = failure
        self._retry_seconds = retry_seconds
        self._task: asyncio.Task[float | None] | None = None
        self._wake_again = False
        self._timer: Timer | None = None
        self._closed = False

    @property
    def is_idle(self) -> bool:
        """Whether the work is not running now."""
        return self._task is None

    def wake(self) -> None:
        """Runs the work now, or once more when the current run is over. Does nothing after `close`."""
        if self._closed:
            return
        if self._task is not None:
            self._wake_again = True
            return
        self._cancel_timer()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_done)

    def wake_in(self, seconds: float) -> None:
        """Runs the work after that time, unless it is woken earlier."""
        self._wake_at(self._clock.time() + seconds)

    async def close(self, *, cancel: bool = False) -> None:
        """Ends the task: waits for the current run, or cancels it. May be called repeatedly."""
        self._closed = True
        self._cancel_timer()
        if self._task is not None:
            if cancel:
                self._task.cancel()
            await asyncio.wait([self._task])

    def report(self, error: BaseException) -> None:
        """Tells the event loop's exception handler that the work failed."""
        context = {"message": self._failure, "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    async def _run(self) -> float | None:
        """Runs the work; returns the time of the next run."""
        seconds = await self._work()
        return None if seconds is None else self._clock.time() + seconds

    def _wake_at(self, time: float) -> None:
        self._cancel_timer()
        if time <= self._clock.time():
            self.wake()
        elif not self._closed:
            self._timer = self._clock.call_at(time, self.wake)

    def _on_done(self, task: asyncio.Task[float | None]) -> None:
        self._task = None
        again, self._wake_again = self._wake_again, False
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.report(error)
            self.wake_in(self._retry_seconds)
        elif again:
            self.wake()
        elif (time := task.result()) is not None:
            self._wake_at(time)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
