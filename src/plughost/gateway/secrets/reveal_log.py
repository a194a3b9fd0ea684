"""RevealLog: lines of the audit log about revealed secrets, written together in the background.

An invocation does not wait for a commit, but every line is stored within a moment, and at the latest by
`close`. While the database takes no lines, only so many wait; then no further secret is revealed.
"""

from __future__ import annotations

import asyncio
import time

from plughost.clock import Clock
from plughost.errors import Stopped
from plughost.gateway import audit
from plughost.gateway.audit import AuditEntry
from plughost.vai.background import BackgroundTask
from plughost.vai.database.database import Database

FLUSH_SECONDS = 0.2
"""How long a line waits for others."""
RETRY_SECONDS = 1.0
MAX_WAITING = 2000
"""Lines in memory; whoever adds another one waits until these are stored."""


class RevealLog:
    """Adds lines to the audit log in batches. Nothing is lost but by a crash."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._waiting: list[tuple[float, AuditEntry]] = []
        self._flushing = asyncio.Lock()
        self._closed = False
        self._task = BackgroundTask(
            self._work,
            clock,
            failure="revealed secrets are not in the audit log yet",
            retry_seconds=RETRY_SECONDS,
        )

    async def add(self, entry: AuditEntry) -> None:
        """Adds a line. DatabaseUnavailable when too many wait and the database does not take them."""
        while len(self._waiting) >= MAX_WAITING:
            await self.flush()
        if self._closed:
            raise Stopped("the host is closed")
        self._waiting.append((time.time(), entry))
        if len(self._waiting) == 1:
            if self._task.is_idle:
                self._task.wake_in(FLUSH_SECONDS)
            else:  # it may have looked already, and be about to rest
                self._task.wake()

    async def flush(self) -> None:
        """Stores all lines that wait."""
        async with self._flushing:
            count = len(self._waiting)
            if count:
                await self._database.write(audit.insert_all(self._waiting[:count]))
                del self._waiting[:count]  # only now: a failed transaction stores none of them

    async def close(self) -> None:
        """Stores all lines; raises when the database does not take them. May be called repeatedly."""
        self._closed = True
        await self._task.close()
        await self.flush()

    async def _work(self) -> float | None:
        await self.flush()
        return FLUSH_SECONDS if self._waiting else None
