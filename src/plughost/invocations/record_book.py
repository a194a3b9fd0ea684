"""The records of invocations in one SQLite file, for whoever looks back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import msgspec

from plughost.invocations.database import opened, transaction
from plughost.invocations.record import Began, Ended, Entry, Said

FILE = "invocations.db"
VERSION = 1

COLUMNS = (
    "invocation_id",
    "export_kind",
    "export_id",
    "binding_id",
    "package_id",
    "package_version",
    "package_digest",
    "started_at",
    "org_id",
    "project_id",
    "session_id",
    "chain_id",
    "run_id",
    "trace_id",
    "execution_id",
)
TABLES = (
    f"""CREATE TABLE IF NOT EXISTS invocations ({", ".join(COLUMNS)}, granted, host,
        ended_at, status, reason, message, retries, confined_by,
        PRIMARY KEY (invocation_id)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS by_start ON invocations (started_at)",
    "CREATE INDEX IF NOT EXISTS running ON invocations (host) WHERE status IS NULL",
    """CREATE TABLE IF NOT EXISTS events (invocation_id, number, at, event,
        PRIMARY KEY (invocation_id, number)) WITHOUT ROWID""",
)
BEGIN = f"""INSERT OR IGNORE INTO invocations ({", ".join(COLUMNS)}, granted, host)
    VALUES ({", ".join("?" * (len(COLUMNS) + 2))})"""
SAY = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?)"
END = """UPDATE invocations
    SET ended_at = ?, status = ?, reason = ?, message = ?, retries = ?, confined_by = ?
    WHERE invocation_id = ? AND status IS NULL"""
END_ALL = """UPDATE invocations SET ended_at = ?, status = 'failed', reason = 'host_ended', retries = 0
    WHERE host = ? AND status IS NULL"""

_decoder = msgspec.json.Decoder(Entry)


class RecordBook:
    """Blocking; one thread at a time. `with RecordBook(folder) as book`."""

    def __init__(self, folder: str) -> None:
        # The journal has what a power cut takes from the database.
        self._connection = opened(os.path.join(folder, FILE), VERSION, TABLES, synchronous="NORMAL")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def take(self, host: str, lines: Iterable[bytes]) -> None:
        """In one transaction; a line that was taken before changes nothing."""
        with transaction(self._connection):
            for line in lines:
                self._take(host, line)

    def _take(self, host: str, line: bytes) -> None:
        try:
            entry = _decoder.decode(line)
        except msgspec.MsgspecError:
            return  # of another version, or a disk's fault: no reason to lose the rest
        match entry:
            case Began() as began:
                columns = [getattr(began, name) for name in COLUMNS]
                self._connection.execute(BEGIN, [*columns, msgspec.json.encode(began.granted), host])
            case Said(invocation_id=of, number=number, at=at, event=event):
                self._connection.execute(SAY, (of, number, at, msgspec.json.encode(event)))
            case Ended() as ended:
                how = (ended.ended_at, ended.status, ended.reason, ended.message, ended.retries)
                confined_by = msgspec.json.encode(ended.confined_by)
                self._connection.execute(END, (*how, confined_by, ended.invocation_id))

    def end_all_of(self, host: str, at: float) -> None:
        """What a host left running when it ended: failed."""
        self._connection.execute(END_ALL, (at, host))

    def latest(
        self, limit: int, *, status: str | None = None, export: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest first."""
        where, values = ["1"], []
        for column, wanted in (("status", status), ("export_id", export)):
            if wanted is not None:
                where.append(f"{column} = ?")
                values.append(wanted)
        found = self._connection.execute(
            f"SELECT * FROM invocations WHERE {' AND '.join(where)} ORDER BY started_at DESC LIMIT ?",
            (*values, limit),
        )
        return [_told(row) for row in found]

    def one(self, invocation_id: str) -> dict[str, Any] | None:
        """With its events."""
        row = self._connection.execute(
            "SELECT * FROM invocations WHERE invocation_id = ?", (invocation_id,)
        ).fetchone()
        if row is None:
            return None
        events = self._connection.execute(
            "SELECT at, event FROM events WHERE invocation_id = ? ORDER BY number", (invocation_id,)
        )
        return {
            **_told(row),
            "events": [{"at": at, "event": msgspec.json.decode(event)} for at, event in events],
        }


def _told(row: sqlite3.Row) -> dict[str, Any]:
    told = dict(row)
    del told["host"]
    granted = msgspec.json.decode(told.pop("granted"))
    confined_by = told.pop("confined_by")
    return {
        **told,
        "execution_class": granted["execution_class"],
        "granted": granted,
        "retries": told["retries"] or 0,
        "confined_by": msgspec.json.decode(confined_by) if confined_by else [],
    }
