"""An invocation as an async generator: its events as they come, then its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from plughost.vai.invocations.invocation import Invocation, Invoker
from plughost.vai.invocations.outcome import Outcome


async def stream(invoker: Invoker, invocation: Invocation) -> AsyncGenerator[dict[str, Any] | Outcome]:
    """Yields the events of an invocation, then its outcome. Closing the generator cancels the invocation.

    The queue has no limit of its own, since the number of events of an invocation is limited.
    """
    events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    task = asyncio.ensure_future(invoker.invoke(invocation, events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield await task
    finally:
        if not task.done():
            task.cancel("listener_gone")
            await asyncio.wait([task])
