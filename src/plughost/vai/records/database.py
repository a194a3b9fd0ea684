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
VERSION = 1

TABLES = (
    # The entries are kept as they came; beside them is what is searched for.
    """CREATE TABLE IF NOT EXISTS invocations (number INTEGER PRIMARY KEY, invocation_id UNIQUE, export_id,
        host, status, began, ended)""",
    "CREATE INDEX IF NOT EXISTS running ON invocations (host) WHERE status IS NULL",
    """CREATE TABLE IF NOT EXISTS events (invocation_id, number, said,
        PRIMARY KEY (invocation_id, number)) WITHOUT ROWID""",
)
BEGIN = """INSERT INTO invocations (invocation_id, export_id, host, status, began, ended)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET status = excluded.status, ended = excluded.ended WHERE status IS NULL"""
# Nothing is kept of an invocation that nobody knows: one that was removed, say.
SAY = """INSERT OR IGNORE INTO events SELECT :id, :number, :said
    WHERE EXISTS (SELECT 1 FROM invocations WHERE invocation_id = :id)"""
END = "UPDATE invocations SET status = ?, ended = ? WHERE invocation_id = ? AND status IS NULL"
LEFT = "SELECT invocation_id FROM invocations WHERE host = ? AND status IS NULL"
ONE = "SELECT * FROM invocations WHERE invocation_id = ?"
EVENTS = "SELECT said FROM events WHERE invocation_id = ? ORDER BY number"
OLDEST = """SELECT number, invocation_id, began, length(began) + length(ended) AS size FROM invocations
    WHERE status IS NOT NULL AND number > ? ORDER BY number LIMIT ?"""
EVENT_BYTES = "SELECT coalesce(sum(length(said)), 0) FROM events WHERE invocation_id = ?"
FORGET_EVENTS = "DELETE FROM events WHERE invocation_id = ?"
FORGET = "DELETE FROM invocations WHERE number = ?"
USED = """SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"""
GIVE_BACK = "PRAGMA incremental_vacuum(256)"


BITE = 256
"""Invocations that one step of pruning reads together."""
LONGEST_BITE = 0.02
"""Longest transaction of pruning, in seconds: other writers wait for that long."""


class _Bound(msgspec.Struct):
    export_id: str


class _Began(msgspec.Struct, tag="began"):
    invocation_id: str
    bound: _Bound
    started_at: float


class _Said(msgspec.Struct, tag="said"):
    invocation_id: str
    number: int


class _Ended(msgspec.Struct, tag="ended"):
    invocation_id: str
    status: str


_brief = msgspec.json.Decoder(_Began | _Said | _Ended)


class RecordDatabase:
    """The database of records: `with RecordDatabase(folder) as database`. Blocking; one thread at a time."""

    def __init__(self, folder: str) -> None:
        # The journal has what a power cut takes from the database.
        self._connection = open_shared_database(
            os.path.join(folder, FILE), VERSION, TABLES, synchronous="NORMAL"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def take(self, host: str, lines: Iterable[bytes]) -> None:
        """Inserts lines of a host's journal in one transaction. Idempotent: a line inserted before changes
        nothing."""
        begun: dict[str, tuple[_Began, bytes]] = {}
        said: list[dict[str, Any]] = []
        ended: dict[str, tuple[str, bytes]] = {}
        for line in lines:
            try:
                entry = _brief.decode(line)
            except msgspec.MsgspecError:
                continue  # of another version, or a disk's fault: no reason to lose the rest
            if isinstance(entry, _Began):
                begun[entry.invocation_id] = entry, line
            elif isinstance(entry, _Ended):
                ended.setdefault(entry.invocation_id, (entry.status, line))
            else:
                said.append({"id": entry.invocation_id, "number": entry.number, "said": line})
        rows = [
            (id, entry.bound.export_id, host, status, line, end)
            for id, (entry, line) in begun.items()
            for status, end in (ended.pop(id, (None, None)),)
        ]
        with transaction(self._connection):
            self._connection.executemany(BEGIN, rows)
            self._connection.executemany(SAY, said)
            self._connection.executemany(END, [(status, line, id) for id, (status, line) in ended.items()])

    def end_all_of(self, host: str, at: float) -> None:
        """Records the running invocations of a host that has ended as failed."""
        with transaction(self._connection):
            for (left,) in self._connection.execute(LEFT, (host,)).fetchall():
                end = Finished(invocation_id=left, ended_at=at, status="failed", reason="host_ended")
                self._connection.execute(END, ("failed", msgspec.json.encode(end), left))

    @property
    def used(self) -> int:
        """Bytes of the file that are in use, without free pages."""
        found: int = self._connection.execute(USED).fetchone()[0]
        return found

    def prune(self, retention: Retention, now: float) -> Pruned:
        """Removes the oldest records that exceed the retention: one small batch of them."""
        if (first := self._first_to_go(retention, now)) is None:
            return Pruned()
        removed = size = 0
        end = time.monotonic() + LONGEST_BITE
        excess = self._excess(retention)
        with transaction(self._connection):
            for row in self._connection.execute(OLDEST, (first["number"] - 1, BITE)).fetchall():
                if (removed and time.monotonic() > end) or not _is_to_go(row, retention, now, excess - size):
                    break
                size += self._size(row)
                self._connection.execute(FORGET_EVENTS, (row["invocation_id"],))
                self._connection.execute(FORGET, (row["number"],))
                removed += 1
        self._connection.execute(GIVE_BACK).fetchall()
        return Pruned(removed, size, self._first_to_go(retention, now) is not None)

    def would_prune(self, retention: Retention, now: float) -> Pruned:
        """Dry run of pruning: about what it would remove in all."""
        removed = size = last = 0
        excess = self._excess(retention)
        while rows := self._connection.execute(OLDEST, (last, BITE)).fetchall():
            for row in rows:
                if not _is_to_go(row, retention, now, excess - size):
                    return Pruned(removed, size)
                removed, size, last = removed + 1, size + self._size(row), row["number"]
        return Pruned(removed, size)

    def _first_to_go(self, retention: Retention, now: float) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(OLDEST, (0, 1)).fetchone()
        to_go = row is not None and _is_to_go(row, retention, now, self._excess(retention))
        return row if to_go else None

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
        found = self._connection.execute(
            f"SELECT * FROM invocations WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?",
            (*values, limit),
        )
        return [_told(row) for row in found]

    def one(self, invocation_id: str) -> dict[str, Any] | None:
        """The record of one invocation with its events; None when it is unknown."""
        row = self._connection.execute(ONE, (invocation_id,)).fetchone()
        if row is None:
            return None
        events = self._connection.execute(EVENTS, (invocation_id,))
        said = [msgspec.json.decode(line) for (line,) in events]
        return {**_told(row), "events": [{"at": each["at"], "event": each["event"]} for each in said]}


def _is_to_go(row: sqlite3.Row, retention: Retention, now: float, excess: int) -> bool:
    if excess > 0:
        return True
    entry = _brief.decode(row["began"])
    assert isinstance(entry, _Began)
    return retention.age is not None and entry.started_at < now - retention.age


def _told(row: sqlite3.Row) -> dict[str, Any]:
    """A record as one flat dict; fields of an end that has not come yet are null."""
    began = msgspec.json.decode(row["began"])
    bound = began.pop("bound")
    ended: dict[str, Any] = dict.fromkeys(Finished.__struct_fields__)
    if row["ended"] is not None:
        ended |= msgspec.structs.asdict(msgspec.json.decode(row["ended"], type=Finished))
    del ended["invocation_id"], began["type"]
    rest = [name for name in Started.__struct_fields__ if name != "bound"]
    return {
        **dict.fromkeys(rest),
        **bound,
        **began,
        **ended,
        "execution_class": bound["granted"]["execution_class"],
        "retries": ended["retries"] or 0,
        "confined_by": list(ended["confined_by"] or ()),
    }
