"""Transactional outbox: events for hooks, written in the same transaction as the change that they report.

So a host that is killed cannot have finished a run without its event.
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
INSERT = "INSERT INTO happened (org_id, project_id, event) VALUES (?, ?, ?)"
SELECT = "SELECT * FROM happened WHERE number > ? ORDER BY number LIMIT ?"
DELETE = "DELETE FROM happened WHERE number = ?"

PAGE_SIZE = 100
"""Events read at a time."""


class OutboxEvent(msgspec.Struct, frozen=True):
    """An event in the outbox, with its tenant and number."""

    number: int
    scope: Scope
    event: HookEvent


def event(kind: str, subject: EventSubject, summary: dict[str, Any]) -> HookEvent:
    """A hook event that occurs now."""
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="microseconds")
    return HookEvent(type=kind, occurred_at=now, subject=subject, summary=summary)


def insert(connection: sqlite3.Connection, scope: Scope, event: HookEvent) -> None:
    """Adds an event within the transaction of the change that it reports."""
    connection.execute(INSERT, (scope.org_id, scope.project_id, msgspec.json.encode(event)))


class Outbox:
    """The outbox table: events that were not handed to deliveries yet."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.announce: Callable[[], object] = lambda: None
        """Called on the event loop when there may be new events."""

    async def add(self, scope: Scope, event: HookEvent) -> None:
        """Adds an event in a transaction of its own; it is stored durably when this returns."""
        try:
            await self._database.do(lambda connection: insert(connection, scope, event))
        finally:
            self.announce()

    async def waiting(self, after: int = 0) -> list[OutboxEvent]:
        """The first events after that number, in order."""
        return await self._database.do(
            lambda connection: [
                OutboxEvent(
                    row["number"],
                    Scope(row["org_id"], row["project_id"]),
                    msgspec.json.decode(row["event"], type=HookEvent),
                )
                for row in connection.execute(SELECT, (after, PAGE_SIZE))
            ]
        )

    async def done(self, number: int) -> None:
        """Removes an event that was handed over."""
        await self._database.run(DELETE, (number,))
