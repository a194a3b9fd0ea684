"""The ways calls are measured, the same for every contender and in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

LEAST = 10
"""Calls one at a time that are made even when the time is over."""

Call = Callable[[], Awaitable[object]]


async def one_at_a_time(call: Call, seconds: float) -> list[float]:
    """The seconds that each call took."""
    await call()  # the first one after a pause pays for cold caches
    times: list[float] = []
    end = perf_counter() + seconds
    began = 0.0
    while began < end or len(times) < LEAST:
        began = perf_counter()
        await call()
        times.append(perf_counter() - began)
    return times


def one_at_a_time_blocking(call: Callable[[], object], seconds: float) -> list[float]:
    """The same for those who know no event loop."""
    call()
    times: list[float] = []
    end = perf_counter() + seconds
    began = 0.0
    while began < end or len(times) < LEAST:
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return times


async def in_flight(call: Call, width: int, seconds: float) -> float:
    """Calls per second with `width` callers, each of which calls again when it is answered."""
    answered = 0

    async def caller() -> None:
        nonlocal answered
        while perf_counter() < end:
            await call()
            answered += 1

    began = perf_counter()
    end = began + seconds
    await asyncio.gather(*(caller() for _ in range(width)))
    return answered / (perf_counter() - began)
