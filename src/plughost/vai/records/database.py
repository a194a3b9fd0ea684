"""RecordDatabase: the records of all invocations in one SQLite file, for queries and pruning."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import msgspec

from plughost.vai.records.record import Finished, Started
from plughost.vai.records.retention import Pruned, Retention
from plughost.vai.sqlite import open_shared_database, transaction

FILE = "invocations.db"

MIGRATIONS = (
    (
        # Entries are stored as they came, as JSON; the columns beside them are for queries.
        """CREATE TABLE invocations (number INTEGER PRIMARY KEY, invocation_id UNIQUE, export_id, host,
            status, began, ended)""",
        "CREATE INDEX running ON invocations (host) WHERE status IS NULL",
        """CREATE TABLE events (invocation_id, number, said,
            PRIMARY KEY (invocation_id, number)) WITHOUT ROWID""",
    ),
)
INSERT = """INSERT INTO invocations (invocation_id, export_id, host, status, began, ended)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET status = excluded.status, ended = excluded.ended WHERE status IS NULL"""
# Events of an unknown invocation, such as one that was pruned, are not stored.
INSERT_EVENT = """INSERT OR IGNORE INTO events SELECT :id, :number, :said
    WHERE EXISTS (SELECT 1 FROM invocations WHERE invocation_id = :id)"""
FINISH = "UPDATE invocations SET status = ?, ended = ? WHERE invocation_id = ? AND status IS NULL"
RUNNING = "SELECT invocation_id FROM invocations WHERE host = ? AND status IS NULL"
FIND = "SELECT * FROM invocations WHERE invocation_id = ?"
EVENTS = "SELECT said FROM events WHERE invocation_id = ? ORDER BY number"
OLDEST = """SELECT number, invocation_id, began, length(began) + length(ended) AS size FROM invocations
    WHERE status IS NOT NULL AND number > ? ORDER BY number LIMIT ?"""
EVENT_BYTES = "SELECT coalesce(sum(length(said)), 0) FROM events WHERE invocation_id = ?"
DELETE_EVENTS = "DELETE FROM events WHERE invocation_id = ?"
DELETE = "DELETE FROM invocations WHERE number = ?"
USED_BYTES = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"""
VACUUM = "PRAGMA incremental_vacuum(256)"


BATCH = 256
"""Invocations that one step of pruning reads together."""
MAX_BATCH_SECONDS = 0.02
"""Longest transaction of pruning, in seconds: other writers wait for that long."""


class _BindingHead(msgspec.Struct):
    export_id: str


class _StartedHead(msgspec.Struct, tag="began"):
    invocation_id: str
    bound: _BindingHead
    started_at: float


class _EventHead(msgspec.Struct, tag="said"):
    invocation_id: str
    number: int


class _FinishedHead(msgspec.Struct, tag="ended"):
    invocation_id: str
    status: str


_head_decoder = msgspec.json.Decoder(_StartedHead | _EventHead | _FinishedHead)


class RecordDatabase:
    """The database of records: `with RecordDatabase(folder) as database`. Blocking; one thread at a time."""

    def __init__(self, folder: str) -> None:
        # NORMAL is enough: what a power cut takes from the database is still in the journal.
        self._connection = open_shared_database(os.path.join(folder, FILE), MIGRATIONS, synchronous="NORMAL")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def insert(self, host: str, lines: Iterable[bytes]) -> None:
        """Inserts lines of a host's journal in one transaction. Idempotent: a line inserted before changes
        nothing."""
        started: dict[str, tuple[_StartedHead, bytes]] = {}
        events: list[dict[str, Any]] = []
        finished: dict[str, tuple[str, bytes]] = {}
        for line in lines:
            try:
                entry = _head_decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # written by another version, or damaged on disk: the other lines still count
            if isinstance(entry, _StartedHead):
                started[entry.invocation_id] = entry, line
            elif isinstance(entry, _FinishedHead):
                finished.setdefault(entry.invocation_id, (entry.status, line))
            else:
                events.append({"id": entry.invocation_id, "number": entry.number, "said": line})
        rows = [
            (id, entry.bound.export_id, host, status, line, end)
            for id, (entry, line) in started.items()
            for status, end in (finished.pop(id, (None, None)),)
        ]
        with transaction(self._connection):
            self._connection.executemany(INSERT, rows)
            self._connection.executemany(INSERT_EVENT, events)
            self._connection.executemany(
                FINISH, [(status, line, id) for id, (status, line) in finished.items()]
            )

    def fail_running(self, host: str, at: float) -> None:
        """Records the running invocations of a host that has ended as failed."""
        with transaction(self._connection):
            for (invocation_id,) in self._connection.execute(RUNNING, (host,)).fetchall():
                end = Finished(invocation_id=invocation_id, ended_at=at, status="failed", reason="host_ended")
                self._connection.execute(FINISH, ("failed", msgspec.json.encode(end), invocation_id))

    @property
    def used(self) -> int:
        """Bytes of the file that are in use, without free pages."""
        used: int = self._connection.execute(USED_BYTES).fetchone()[0]
        return used

    def prune(self, retention: Retention, now: float) -> Pruned:
        """Removes the oldest records that exceed the retention: one small batch of them."""
        if (first := self._first_excess(retention, now)) is None:
            return Pruned()
        removed = size = 0
        end = time.monotonic() + MAX_BATCH_SECONDS
        excess_bytes = self._excess(retention)
        with transaction(self._connection):
            for row in self._connection.execute(OLDEST, (first["number"] - 1, BATCH)).fetchall():
                if (removed and time.monotonic() > end) or not _exceeds(
                    row, retention, now, excess_bytes - size
                ):
                    break
                size += self._size(row)
                self._connection.execute(DELETE_EVENTS, (row["invocation_id"],))
                self._connection.execute(DELETE, (row["number"],))
                removed += 1
        self._connection.execute(VACUUM).fetchall()
        return Pruned(removed, size, self._first_excess(retention, now) is not None)

    def would_prune(self, retention: Retention, now: float) -> Pruned:
        """Dry run of pruning: about what it would remove in all."""
        removed = size = last = 0
        excess = self._excess(retention)
        while rows := self._connection.execute(OLDEST, (last, BATCH)).fetchall():
            for row in rows:
                if not _exceeds(row, retention, now, excess - size):
                    return Pruned(removed, size)
                removed, size, last = removed + 1, size + self._size(row), row["number"]
        return Pruned(removed, size)

    def _first_excess(self, retention: Retention, now: float) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(OLDEST, (0, 1)).fetchone()
        exceeds = row is not None and _exceeds(row, retention, now, self._excess(retention))
        return row if exceeds else None

    def _excess(self, retention: Retention) -> int:
        return 0 if retention.size is None else self.used - retention.size

    def _size(self, row: sqlite3.Row) -> int:
        events: int = self._connection.execute(EVENT_BYTES, (row["invocation_id"],)).fetchone()[0]
        return events + int(row["size"])

    def latest(
        self, limit: int, *, status: str | None = None, export: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest records first, filtered by status and export id."""
        where, values = ["1"], []
        for column, wanted in (("status", status), ("export_id", export)):
            if wanted is not None:
                where.append(f"{column} = ?")
                values.append(wanted)
        rows = self._connection.execute(
            f"SELECT * FROM invocations WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?",
            (*values, limit),
        )
        return [_as_dict(row) for row in rows]

    def get(self, invocation_id: str) -> dict[str, Any] | None:
        """The record of one invocation with its events; None when it is unknown."""
        row = self._connection.execute(FIND, (invocation_id,)).fetchone()
        if row is None:
            return None
        lines = self._connection.execute(EVENTS, (invocation_id,))
        events = [msgspec.json.decode(line) for (line,) in lines]
        return {**_as_dict(row), "events": [{"at": each["at"], "event": each["event"]} for each in events]}


def _exceeds(row: sqlite3.Row, retention: Retention, now: float, excess: int) -> bool:
    if excess > 0:
        return True
    entry = _head_decoder.decode(row["began"])
    assert isinstance(entry, _StartedHead)
    return retention.age is not None and entry.started_at < now - retention.age


def _as_dict(row: sqlite3.Row) -> dict[str, Any]:
    """A record as one flat dict; fields of an end that has not come yet are null."""
    began = msgspec.json.decode(row["began"])
    bound = began.pop("bound")
    finished: dict[str, Any] = dict.fromkeys(Finished.__struct_fields__)
    if row["ended"] is not None:
        finished |= msgspec.structs.asdict(msgspec.json.decode(row["ended"], type=Finished))
    del finished["invocation_id"], began["type"]
    rest = [name for name in Started.__struct_fields__ if name != "bound"]
    return {
        **dict.fromkeys(rest),
        **bound,
        **began,
        **finished,
        "execution_class": bound["granted"]["execution_class"],
        "retries": finished["retries"] or 0,
        "confined_by": list(finished["confined_by"] or ()),
    }
