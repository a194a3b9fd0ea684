"""Retention of events and deliveries: removes old ones in small batches, while hosts go on working.

A delivery is removed only when it is settled (acked or dead). An event is removed only when it is handed to
deliveries and none of these is left. What is old is looked for in read transactions, which hold up nobody.
"""

from __future__ import annotations

import time

import msgspec

from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Result, load_statements
from plughost.vai.records.records import VACUUM
from plughost.vai.records.retention import PrunedState, Retention

_SQL = load_statements(__file__)
KEEP_DELIVERIES, KEEP_EVENTS = _SQL["keep_deliveries"], _SQL["keep_events"]
DELETE_DELIVERIES, OLD_EVENTS, DELETE_EVENTS = (
    _SQL[name] for name in ("delete_deliveries", "old_events", "delete_events")
)
COUNT_DELIVERIES, COUNT_EVENTS = _SQL["count_deliveries"], _SQL["count_events"]

PAGE_SIZE = 512
"""Events that one batch looks at."""
CHUNK = 32
"""Rows that one statement deletes; the time is checked after each."""
MAX_BATCH_SECONDS = 0.02
"""Longest transaction of pruning, in seconds: other writers wait for that long."""


class _Place(msgspec.Struct, frozen=True, order=True):
    """A row's place in the order of time: rows up to it are removed, or were looked at."""

    at: float = float("-inf")
    number: int = -1


NOWHERE = _Place()


class StatePruner:
    """Removes the events and deliveries of a database that exceed a retention. It remembers how far it has
    looked, so that old events whose deliveries are kept do not hold up a batch."""

    def __init__(self, database: Database, retention: Retention) -> None:
        self._database = database
        self._retention = retention
        self._looked_at = NOWHERE

    async def prune(self, now: float) -> PrunedState:
        """Removes one small batch; see `Pruner.prune`."""
        deliveries, events = await self._database.read(_last_removed, self._retention, now)
        removed_deliveries, more = 0, False
        if deliveries != NOWHERE:
            removed_deliveries, more = await self._database.write_unsynced(_prune_deliveries, deliveries)
        removed_events = 0
        if events != NOWHERE and not more:  # an event goes after the last of its deliveries
            removed_events, more = await self._prune_events(events)
        if removed_deliveries or removed_events:
            await self._database.write_unsynced(VACUUM())
        return PrunedState(removed_events, removed_deliveries, more)

    async def would_prune(self, now: float) -> PrunedState:
        """Dry run of pruning: what it would remove in all."""
        return await self._database.read(_would_prune, self._retention, now)

    async def _prune_events(self, last: _Place) -> tuple[int, bool]:
        found = await self._database.read(
            OLD_EVENTS(
                at=last.at,
                number=last.number,
                after_at=self._looked_at.at,
                after=self._looked_at.number,
                limit=PAGE_SIZE,
            )
        )
        old = [row["number"] for row in found.rows if not row["kept"]]
        removed, done = 0, True
        if old:
            removed, done = await self._database.write_unsynced(_delete_events, old)
        if not done:
            return removed, True  # the same page again, without those that are gone
        is_full = len(found.rows) == PAGE_SIZE
        self._looked_at = (
            _Place(found.rows[-1]["created_at"], found.rows[-1]["number"]) if is_full else NOWHERE
        )
        return removed, is_full


def _last_removed(retention: Retention, now: float) -> Steps[tuple[_Place, _Place]]:
    """The last delivery and the last event that exceed the retention."""
    deliveries, events = _by_age(retention.delivery_age, now), _by_age(retention.event_age, now)
    if retention.delivery_count is not None:
        deliveries = max(deliveries, _place((yield KEEP_DELIVERIES(count=retention.delivery_count))))
    if retention.event_count is not None:
        events = max(events, _place((yield KEEP_EVENTS(count=retention.event_count))))
    return deliveries, events


def _by_age(age: float | None, now: float) -> _Place:
    return NOWHERE if age is None else _Place(now - age)


def _place(found: Result) -> _Place:
    row = found.first()
    return NOWHERE if row is None else _Place(row["at"], row["number"])


def _prune_deliveries(last: _Place) -> Steps[tuple[int, bool]]:
    """Removes deliveries for a short time; returns how many, and whether there may be more."""
    removed, end = 0, time.monotonic() + MAX_BATCH_SECONDS
    while True:
        count = (yield DELETE_DELIVERIES(at=last.at, number=last.number, limit=CHUNK)).changed
        removed += count
        if count < CHUNK:
            return removed, False
        if time.monotonic() >= end:
            return removed, True


def _delete_events(numbers: list[int]) -> Steps[tuple[int, bool]]:
    """Removes events for a short time; returns how many, and whether all were tried."""
    removed, end = 0, time.monotonic() + MAX_BATCH_SECONDS
    for start in range(0, len(numbers), CHUNK):
        if start and time.monotonic() >= end:
            return removed, False
        removed += (yield DELETE_EVENTS(numbers=numbers[start : start + CHUNK])).changed
    return removed, True


def _would_prune(retention: Retention, now: float) -> Steps[PrunedState]:
    deliveries, events = yield from _last_removed(retention, now)
    settled = (yield COUNT_DELIVERIES(at=deliveries.at, number=deliveries.number)).value()
    handled = yield COUNT_EVENTS(
        at=events.at,
        number=events.number,
        delivery_at=deliveries.at,
        delivery_number=deliveries.number,
    )
    return PrunedState(handled.value(), settled)
