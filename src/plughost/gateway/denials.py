"""Denials: refused requests, on their way into the audit log.

A flood of refused requests must not become a flood of transactions. So denials are written together, a few
times a second, and of more than fit into memory only the number is kept.
"""

from __future__ import annotations

import time

from plughost.clock import Clock
from plughost.gateway import audit
from plughost.gateway.audit import AuditEntry
from plughost.vai.background import BackgroundTask
from plughost.vai.database.database import Database

DELAY = 0.2
"""Seconds until a denial is written."""
MAX_WAITING = 1000
"""Denials that wait; of further ones only the number is written."""


class Denials:
    """Writes denials to the audit log, in the background."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._waiting: list[tuple[float, AuditEntry]] = []
        self._omitted = 0
        self._task = BackgroundTask(
            self._write, clock, failure="denials are waiting for the audit log", retry_seconds=5.0
        )

    def add(self, entry: AuditEntry) -> None:
        """Adds a denial; it is in the database a moment later."""
        if len(self._waiting) >= MAX_WAITING:
            self._omitted += 1
            return
        self._waiting.append((time.time(), entry))
        if len(self._waiting) == 1:
            self._task.wake_in(DELAY)

    async def close(self) -> None:
        """Writes what waits."""
        await self._task.close()
        await self._write()

    async def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        omitted, self._omitted = self._omitted, 0
        if omitted:
            what = f"{omitted} further denials"
            waiting.append((time.time(), AuditEntry(action="audit.omitted", target=what, outcome="omitted")))
        if waiting:
            try:
                await self._database.write_unsynced(audit.insert_all(waiting))
            except BaseException:
                self._waiting[:0] = waiting
                raise
