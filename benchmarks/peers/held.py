"""An async context that is entered here and left there."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any


class Held:
    """In a task of its own: a context of anyio must be left by the task that entered it, and what
    breaks inside cancels that task and not ours."""

    async def enter(self, context: AbstractAsyncContextManager[Any]) -> Any:
        self._leave = asyncio.Event()
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(context, entered))
        await asyncio.wait((entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            await self._task
        return entered.result()

    async def leave(self) -> None:
        self._leave.set()
        await asyncio.wait((self._task,))

    async def _hold(self, context: AbstractAsyncContextManager[Any], entered: asyncio.Future[Any]) -> None:
        async with context as inside:
            entered.set_result(inside)
            await self._leave.wait()
