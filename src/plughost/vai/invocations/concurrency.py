"""Concurrency limit of a binding: how many of its invocations run at a time. Others queue, first in, first
out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol


class ParentLimit(Protocol):
    """A limit that several bindings share."""

    def enter_now(self) -> bool:
        """Takes a slot without waiting; False when none is free."""

    async def enter(self) -> None:
        """Takes a slot, and waits for it when none is free."""

    def leave(self) -> None:
        """Frees the slot, for whoever is next."""


class ConcurrencyLimit:
    """Limits concurrency to `limit` slots. With a `parent`, a slot is needed in both."""

    def __init__(self, limit: int, parent: ParentLimit | None = None) -> None:
        self.parent = parent
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """The number of those who wait for a slot."""
        return len(self._waiting)

    def enter_now(self) -> bool:
        """Takes a slot without waiting; False when none is free."""
        if self._free <= 0 or self._waiting or (self.parent is not None and not self.parent.enter_now()):
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        """Takes a slot, and waits for it when none is free."""
        if self.enter_now():
            return
        await self._enter_self()
        if self.parent is not None:
            try:
                await self.parent.enter()
            except BaseException:
                self._leave_self()
                raise

    async def _enter_self(self) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                if waiter.exception() is None:
                    self._leave_self()  # the slot was granted at that moment: pass it on
            elif waiter in self._waiting:  # `_leave_self` may have removed it already
                self._waiting.remove(waiter)
            raise

    def refuse_waiting(self, error: Exception) -> None:
        """Raises `error` in all those who wait for a slot now."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)

    def leave(self) -> None:
        """Frees the slot, for the first in the queue."""
        if self.parent is not None:
            self.parent.leave()
        self._leave_self()

    def _leave_self(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
