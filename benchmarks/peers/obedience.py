"""Measures whenever a line on stdin says so, and answers with a line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import payload, timing

CallWith = Callable[[dict[str, str]], Awaitable[object]]


async def obey(call: CallWith) -> None:
    # The read waits in a thread: the session's own tasks go on meanwhile.
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await _follow(call, **json.loads(line))), flush=True)


async def _follow(call: CallWith, do: str, size: int = 100, width: int = 1, seconds: float = 0.0) -> Any:
    params = payload.params(size)
    if do == "one_at_a_time":
        return await timing.one_at_a_time(lambda: call(params), seconds)
    if do == "in_flight":
        return await timing.in_flight(lambda: call(params), width, seconds)
    return do
