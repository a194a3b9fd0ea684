"""Retry policy of registry transfers: timeouts, minimum transfer rate, exponential backoff."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec

from plughost.clock import Clock
from plughost.vai.packages.oci.errors import TransferFailed

Result = TypeVar("Result")


class RetryPolicy(msgspec.Struct, frozen=True):
    """Timeouts and delays in seconds, numbers of retries, and minimum bytes."""

    answer: float = 60.0
    """Timeout for the head of a response, or all of a small one."""
    window: float = 30.0
    """A transfer must move at least `least` bytes in each window."""
    least: int = 64 << 10
    commit: float = 300.0
    """Timeout for a registry to store what it was sent."""
    retries: int = 5
    """Retries after the first attempt; counted anew when an attempt got `gain` bytes further than any
    before."""
    gain: int = 1 << 20
    first: float = 0.25
    """The delay before the first retry; it doubles each time, up to `longest`."""
    longest: float = 30.0


class Retryable(Exception):
    """A failure that may be temporary. `after` is the delay that the server asked for."""

    def __init__(self, error: TransferFailed, *, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after
        self.reached = 0
        """Bytes transferred before the failure."""


def delay(policy: RetryPolicy, failures: int, after: float | None, jitter: float) -> float:
    """The delay before the next attempt: exponential backoff with jitter, so that clients that failed
    together do not return together."""
    own = min(policy.longest, policy.first * 2 ** (failures - 1)) * (0.5 + jitter / 2)
    return after or own


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Parses a `Retry-After` header, in seconds or as a date; None when it cannot be read."""
    if header is None or len(header) > 64:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return float(header)
    try:
        when = parsedate_to_datetime(header)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, OverflowError):
        return None


async def pause(clock: Clock, seconds: float) -> None:
    """Sleeps on the given clock."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.time() + seconds, over.cancel)
    try:
        await asyncio.wait({over})
    finally:
        timer.cancel()


async def retry(
    attempt: Callable[[], Awaitable[Result]], policy: RetryPolicy, clock: Clock, jitter: Callable[[], float]
) -> Result:
    """Calls `attempt` until it succeeds; raises the last failure when the policy allows no more retries."""
    failures = furthest = 0
    while True:
        try:
            return await attempt()
        except Retryable as again:
            failures += 1
            if again.reached >= furthest + policy.gain:
                failures, furthest = 1, again.reached
            if failures > policy.retries:
                raise again.error from None
            if again.after is not None and again.after > policy.longest:
                again.error.hint = f"the registry asks to wait {again.after:.0f} s"
                raise again.error from None
            await pause(clock, delay(policy, failures, again.after, jitter()))


@asynccontextmanager
async def within(clock: Clock, seconds: float, what: str) -> AsyncIterator[None]:
    """A timeout for the block; Retryable when it takes longer."""
    try:
        async with asyncio.timeout(None) as limit:
            timer = clock.call_at(clock.time() + seconds, lambda: limit.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()
    except TimeoutError:
        raise Retryable(TransferFailed(f"{what}: no answer within {seconds:g} s")) from None


class TransferPace:
    """Aborts a transfer that is too slow: where bytes keep trickling in, no ordinary timeout would."""

    def __init__(self, policy: RetryPolicy, clock: Clock, limit: asyncio.Timeout) -> None:
        self._policy = policy
        self._clock = clock
        self._limit = limit
        self._moved = 0
        self._arm()

    def moved(self, count: int) -> None:
        """Counts transferred bytes."""
        self._moved += count

    def all_sent(self) -> None:
        """Everything is sent: from now on the timeout for the registry's commit applies."""
        self.stop()
        when = self._clock.time() + self._policy.commit
        self._timer = self._clock.call_at(when, lambda: self._limit.reschedule(0))

    def stop(self) -> None:
        """Stops the timer."""
        self._timer.cancel()

    def _arm(self) -> None:
        self._timer = self._clock.call_at(self._clock.time() + self._policy.window, self._look)

    def _look(self) -> None:
        if self._moved < self._policy.least:
            self._limit.reschedule(0)
        else:
            self._moved = 0
            self._arm()


@asynccontextmanager
async def pacing(policy: RetryPolicy, clock: Clock, what: str) -> AsyncIterator[TransferPace]:
    """Watches the rate of a transfer; Retryable when fewer than `least` bytes move within a window."""
    try:
        async with asyncio.timeout(None) as limit:
            pace = TransferPace(policy, clock, limit)
            try:
                yield pace
            finally:
                pace.stop()
    except TimeoutError:
        slow = f"fewer than {policy.least} bytes were transferred within {policy.window:g} s"
        raise Retryable(TransferFailed(f"{what}: {slow}")) from None
