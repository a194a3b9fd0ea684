"""in_thread: runs blocking work in a thread, and always waits for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread. If the caller is cancelled, it still waits for the end, because the thread uses
    the caller's descriptors."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # retrieved, so that asyncio does not report it as never retrieved
        raise cancelled
    return running.result()
