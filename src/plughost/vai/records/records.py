"""Records: the records of all invocations in the database, for queries and pruning."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from plughost.vai.database.database import Database, Steps
from plughost.vai.database.errors import ValueRefused
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.records.record import Finished, Started
from plughost.vai.records.retention import Pruned, Retention

_SQL = load_statements(__file__)
INSERT_STARTED, INSERT_EVENTS, FINISH = _SQL["insert_started"], _SQL["insert_events"], _SQL["finish"]
FIND_BY_KEY = _SQL["find_by_key"]
RUNNING, PRESUME_ENDED, FIND, EVENTS = _SQL["running"], _SQL["presume_ended"], _SQL["find"], _SQL["events"]
OLDEST, KEEP_FROM = _SQL["oldest"], _SQL["keep_from"]
DELETE, DELETE_EVENTS, USED_BYTES, VACUUM = (
    _SQL[name] for name in ("delete", "delete_events", "used_bytes", "vacuum")
)

LIST = Filters(
    "SELECT number, invocation_id, started, status, finished FROM invocations",
    equal={
        "org": "org_id",
        "project": "project_id",
        "status": "status",
        "export": "export_id",
        "binding": "binding_id",
        "version": "package_version",
        "session": "session_id",
        "chain": "chain_id",
        "run": "run_id",
        "trace": "trace_id",
    },
    at_least={"since": "started_at"},
    below={"until": "started_at"},
    needs={"version": "export", "project": "org", "org": "project"},
    newest_first=("started_at", "number"),
)
"""The lists of invocations, newest first."""

STARTED, EVENT, FINISHED = b'{"type":"began"', b'{"type":"said"', b'{"type":"ended"'
"""How the lines of a journal begin."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""A NUL character in JSON: PostgreSQL cannot read one, so both databases get a replacement character."""
BATCH = 256
"""Invocations that one step of pruning reads together."""
MAX_BATCH_BYTES = 256 << 10
"""Bytes of records that one transaction of pruning removes, about: other writers wait for it."""
MEASURE_SECONDS = 60.0
"""Seconds between two measurements of all records on PostgreSQL, which read every one of them."""


class Records:
    """The records in the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._measured_at = float("-inf")
        self._excess_bytes = 0
        """By how much the records exceeded the retention's size, without what was pruned since."""

    async def insert(self, host: str, lines: Sequence[bytes]) -> list[bytes]:
        """Inserts lines of a host's journal. Idempotent: a line inserted before changes nothing. Returns the
        lines that the database refuses: damaged on disk, or with a value that is too large for it.

        The database takes the lines apart itself, so that this process does not: its event loop goes on.
        """
        known = [line for line in lines if line.startswith((STARTED, EVENT, FINISHED))]
        unknown = [line for line in lines if line and not line.startswith((STARTED, EVENT, FINISHED))]
        return unknown + await self._insert_or_divide(host, known)

    async def _insert_or_divide(self, host: str, lines: Sequence[bytes]) -> list[bytes]:
        """Inserts lines; if the database refuses them, each half alone, until the refused ones are found."""
        try:
            await self._database.write_unsynced(_insert, host, lines)
        except ValueRefused:
            if len(lines) == 1:
                return [*lines]
            half = len(lines) // 2
            first = await self._insert_or_divide(host, lines[:half])
            return first + await self._insert_or_divide(host, lines[half:])
        return []

    async def commit_start(self, host: str, started: Started, key: str | None) -> str:
        """Stores the start of an invocation; it is on disk when this returns. Returns its id, or with an
        idempotency key the id of the invocation that was started with it first."""
        return await self._database.write(_commit_start, host, started, key)

    async def used(self) -> int:
        """Bytes of all records; of SQLite the whole file, without free pages."""
        return int((await self._database.read(USED_BYTES())).value())

    async def prune(self, retention: Retention, now: float) -> Pruned:
        """Removes the oldest records that exceed the retention: one small batch of them."""
        if retention.size is not None and self._must_measure():
            self._excess_bytes = await self.used() - retention.size
        pruned = await self._database.write_unsynced(_prune, retention, self._excess_bytes, now)
        self._excess_bytes -= pruned.bytes
        if pruned.invocations:
            await self._database.write_unsynced(VACUUM())
        return pruned

    def _must_measure(self) -> bool:
        now = time.monotonic()
        if self._database.dialect == "postgresql" and now - self._measured_at < MEASURE_SECONDS:
            return False
        self._measured_at = now
        return True

    async def would_prune(self, retention: Retention, now: float) -> Pruned:
        """Dry run of pruning: about what it would remove in all."""
        return await self._database.read(_would_prune, retention, now)

    async def latest(self, limit: int, **filters: Any) -> list[dict[str, Any]]:
        """The newest records first, filtered by the words of `LIST`."""
        rows = (await self._database.read(LIST.query(filters, limit))).rows
        return [_as_dict(row) for row in rows]

    async def get(self, invocation_id: str) -> dict[str, Any] | None:
        """The record of one invocation with its events; None when it is unknown."""
        return await self._database.read(_get, invocation_id)


def _insert(host: str, lines: Sequence[bytes]) -> Steps[None]:
    lines = [_without_nul(line) for line in lines]
    started, events, finished = (
        [line for line in lines if line.startswith(kind)] for kind in (STARTED, EVENT, FINISHED)
    )
    ends = _array(finished)
    if started:
        yield INSERT_STARTED(host=host, started=_array(started), finished=ends, start_key=None)
    if events:
        yield INSERT_EVENTS(events=_array(events))
    if finished:
        yield FINISH(finished=ends)


def _commit_start(host: str, started: Started, key: str | None) -> Steps[str]:
    line = _without_nul(msgspec.json.encode(started))
    own = None if key is None else msgspec.json.encode([started.org_id, started.project_id, key]).decode()
    yield INSERT_STARTED(host=host, started=_array([line]), finished="[]", start_key=own)
    if own is None:
        return started.invocation_id
    return str((yield FIND_BY_KEY(start_key=own)).value())


def _without_nul(line: bytes) -> bytes:
    return _NUL.sub(rb"\1\\ufffd", line) if b"\\u0000" in line else line


def _array(lines: list[bytes]) -> str:
    return f"[{b','.join(lines).decode(errors='replace')}]"


def presume_ended(host: str) -> Steps[None]:
    """Ends the running invocations of a host that is gone."""
    rows = (yield RUNNING(host=host)).rows
    now = time.time()
    yield PRESUME_ENDED.each(
        {
            "invocation_id": row["invocation_id"],
            "finished": msgspec.json.encode(
                Finished(
                    invocation_id=row["invocation_id"], ended_at=now, status="failed", reason="host_ended"
                )
            ).decode(),
        }
        for row in rows
    )


class _Excess(msgspec.Struct):
    """By how much records exceed a retention."""

    bytes: int
    before: float
    """Records that began before this time are too old."""
    numbers: int
    """Records up to this number are too many."""

    def has(self, row: Row) -> bool:
        return self.bytes > 0 or row["started_at"] < self.before or row["number"] <= self.numbers


def _excess(retention: Retention, size: int, now: float) -> Steps[_Excess]:
    numbers = -1
    if retention.count is not None:
        row = (yield KEEP_FROM(count=retention.count)).first()
        numbers = -1 if row is None else row["number"]
    return _Excess(size, float("-inf") if retention.age is None else now - retention.age, numbers)


def _prune(retention: Retention, excess_bytes: int, now: float) -> Steps[Pruned]:
    excess = yield from _excess(retention, excess_bytes, now)
    rows = (yield OLDEST(after=-1, limit=BATCH)).rows
    removed: list[Row] = []
    size = 0
    for row in rows:
        if not excess.has(row) or (removed and size + row["bytes"] > MAX_BATCH_BYTES):
            break
        removed.append(row)
        size += row["bytes"]
        excess.bytes -= row["bytes"]
    if removed:
        yield DELETE_EVENTS(invocation_ids=[row["invocation_id"] for row in removed])
        yield DELETE(numbers=[row["number"] for row in removed])
    more = len(rows) == BATCH if len(removed) == len(rows) else excess.has(rows[len(removed)])
    return Pruned(len(removed), size, more)


def _would_prune(retention: Retention, now: float) -> Steps[Pruned]:
    size = 0 if retention.size is None else (yield USED_BYTES()).value() - retention.size
    excess = yield from _excess(retention, size, now)
    removed = size = 0
    last = -1
    while rows := (yield OLDEST(after=last, limit=BATCH)).rows:
        for row in rows:
            if not excess.has(row):
                return Pruned(removed, size)
            removed, size, excess.bytes = removed + 1, size + row["bytes"], excess.bytes - row["bytes"]
            last = row["number"]
    return Pruned(removed, size)


def _get(invocation_id: str) -> Steps[dict[str, Any] | None]:
    row = (yield FIND(invocation_id=invocation_id)).first()
    if row is None:
        return None
    lines = (yield EVENTS(invocation_id=invocation_id)).rows
    events = [msgspec.json.decode(line["logged"]) for line in lines]
    return {**_as_dict(row), "events": [{"at": each["at"], "event": each["event"]} for each in events]}


def _as_dict(row: Row) -> dict[str, Any]:
    """A record as one flat dict; fields of an end that has not come yet are null."""
    started = msgspec.json.decode(row["started"])
    bound = started.pop("bound")
    finished: dict[str, Any] = dict.fromkeys(Finished.__struct_fields__)
    if row["finished"] is not None:
        finished |= msgspec.structs.asdict(msgspec.json.decode(row["finished"], type=Finished))
    del finished["invocation_id"], started["type"]
    rest = [name for name in Started.__struct_fields__ if name != "bound"]
    return {
        **dict.fromkeys(rest),
        **bound,
        **started,
        **finished,
        "execution_class": bound["granted"]["execution_class"],
        "retries": finished["retries"] or 0,
        "confined_by": list(finished["confined_by"] or ()),
    }
