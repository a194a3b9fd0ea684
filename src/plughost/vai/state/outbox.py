"""Transactional outbox: events for hooks, written in the same transaction as the change that they report.

So a host that is killed cannot have finished a run without its event. The change itself yields `insert`, as
`_finish` in `runs.py` does; `Outbox.add` is for events that report no change.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database
from plughost.vai.database.statements import Query, Row, load_statements
from plughost.vai.state.tenant_columns import columns

_SQL = load_statements(__file__)
INSERT, INSERT_HANDLED, WAITING, DONE = (
    _SQL[name] for name in ("insert", "insert_handled", "waiting", "done")
)
WAITING_OF, WAITING_OF_ORG = _SQL["waiting_of"], _SQL["waiting_of_org"]

CHANNEL = "plughost_events"
"""The channel on which processes tell each other of new events."""
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


def insert(scope: Scope, event: HookEvent) -> Query:
    """Adds an event within the transaction of the change that it reports."""
    return INSERT(**_event_columns(scope, event))


def insert_handled(scope: Scope, event: HookEvent) -> Query:
    """Adds an event together with its deliveries; the result is its number."""
    return INSERT_HANDLED(**_event_columns(scope, event))


def _event_columns(scope: Scope, event: HookEvent) -> dict[str, Any]:
    return {**columns(scope), "event": msgspec.json.encode(event).decode(), "created_at": time.time()}


def outbox_event(row: Row) -> OutboxEvent:
    """An event of the outbox from its row."""
    return OutboxEvent(
        row["number"],
        Scope(row["org_id"], row["project_id"] or None),
        msgspec.json.decode(row["event"], type=HookEvent),
    )


class Outbox:
    """The events that were not handed to deliveries yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, scope: Scope, event: HookEvent) -> None:
        """Adds an event in a transaction of its own; it is stored durably when this returns."""
        try:
            await self._database.write(insert(scope, event))
        finally:
            self.announce()

    def announce(self) -> None:
        """Tells all processes that there may be new events."""
        self._database.announce(CHANNEL)

    async def waiting(self, after: int = 0) -> list[OutboxEvent]:
        """The first events of any tenant after that number, in order."""
        found = await self._database.read(WAITING(after=after, limit=PAGE_SIZE))
        return [outbox_event(row) for row in found.rows]
