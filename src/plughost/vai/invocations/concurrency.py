"""Concurrency limit of a binding: how many of its invocations run at a time. Others queue, first in, first
out."""

from __future__ import annotations

import asyncio
from collections import deque


class ConcurrencyLimit:
    """Limits concurrency to `most` slots. With a `parent`, a slot is needed in both."""

    def __init__(self, most: int, beyond: ConcurrencyLimit | None = None) -> None:
        self.beyond = beyond
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """The number of those who wait for a slot."""
        return len(self._waiting)

    def enter_now(self) -> bool:
        """Takes a slot without waiting; False when none is free."""
        if self._free <= 0 or self._waiting or (self.beyond is not None and not self.beyond.enter_now()):
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        """Takes a slot, and waits for it when none is free."""
        if self.enter_now():
            return
        await self._enter_here()
        if self.beyond is not None:
            try:
                await self.beyond.enter()
            except BaseException:
                self._leave_here()
                raise

    async def _enter_here(self) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave_here()  # it was our turn just then: the next one has it
            elif turn in self._waiting:  # whoever left just now may have passed over it
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Frees the slot, for the first in the queue."""
        if self.beyond is not None:
            self.beyond.leave()
        self._leave_here()

    def _leave_here(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
