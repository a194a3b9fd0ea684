"""What has happened and was not handed to hooks yet: kept in the transaction that made it so.

So no moment is left at which a killed host has finished a run and forgotten to say it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.vai.bindings.binding import Scope
from plughost.vai.sqlite import SqliteDatabase

TABLES = (
    """CREATE TABLE IF NOT EXISTS happened (number INTEGER PRIMARY KEY AUTOINCREMENT, org_id NOT NULL,
        project_id, event NOT NULL)""",
)
TELL = "INSERT INTO happened (org_id, project_id, event) VALUES (?, ?, ?)"
WAITING = "SELECT * FROM happened WHERE number > ? ORDER BY number LIMIT ?"
DONE = "DELETE FROM happened WHERE number = ?"

AT_ONCE = 100


class OutboxEvent(msgspec.Struct, frozen=True):
    number: int
    scope: Scope
    event: HookEvent


def event(kind: str, subject: EventSubject, summary: dict[str, Any]) -> HookEvent:
    """One that happens now."""
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="microseconds")
    return HookEvent(type=kind, occurred_at=now, subject=subject, summary=summary)


def tell(connection: sqlite3.Connection, scope: Scope, event: HookEvent) -> None:
    """As a part of the transaction whose work it tells of."""
    connection.execute(TELL, (scope.org_id, scope.project_id, msgspec.json.encode(event)))


class Outbox:
    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.announce: Callable[[], object] = lambda: None
        """Called on the loop when something may be waiting."""

    async def tell(self, scope: Scope, event: HookEvent) -> None:
        """Kept when this returns."""
        try:
            await self._database.do(lambda connection: tell(connection, scope, event))
        finally:
            self.announce()

    async def waiting(self, after: int = 0) -> list[OutboxEvent]:
        """The first of what nobody has taken, in its order, after that number."""
        return await self._database.do(
            lambda connection: [
                OutboxEvent(
                    row["number"],
                    Scope(row["org_id"], row["project_id"]),
                    msgspec.json.decode(row["event"], type=HookEvent),
                )
                for row in connection.execute(WAITING, (after, AT_ONCE))
            ]
        )

    async def done(self, number: int) -> None:
        await self._database.run(DONE, (number,))
