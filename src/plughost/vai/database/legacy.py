"""Takes over the three SQLite files of earlier versions, once: state.db, deliveries.db and invocations.db.

The files stay as they were. They are read from copies, because opening a file in WAL mode would change it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from plughost.errors import HostFailed

STATE, DELIVERIES, INVOCATIONS = "state.db", "deliveries.db", "invocations.db"
VERSIONS = {STATE: 2, DELIVERIES: 2, INVOCATIONS: 1}
"""The newest version of each file."""
STATUSES = {"under way": "pending", "acknowledged": "acked"}
JOURNAL = ".journal"


def taking_over(folder: str) -> Callable[[sqlite3.Connection], None]:
    """Copies everything from the files of earlier versions into a new database, within its first
    transaction."""

    def take_over(connection: sqlite3.Connection) -> None:
        found = [name for name in VERSIONS if os.path.exists(os.path.join(folder, name))]
        if found:
            _check_unused(folder)
        for name in found:
            with _opened_copy(os.path.join(folder, name), VERSIONS[name]) as old:
                {STATE: _state, DELIVERIES: _deliveries, INVOCATIONS: _invocations}[name](old, connection)
            connection.execute(
                "INSERT INTO meta VALUES (?, ?)",
                (f"taken over: {name}", msgspec.json.encode(time.time()).decode()),
            )

    return take_over


def _check_unused(folder: str) -> None:
    """A host of an earlier version that still runs would go on with the old files."""
    for name in os.listdir(folder):
        if name.endswith(JOURNAL):
            with open(os.path.join(folder, name), "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise HostFailed(
                        f"{folder} is in use by a host of an earlier version",
                        hint="stop that host first; its data is then taken over",
                    ) from None


@contextmanager
def _opened_copy(path: str, newest: int) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix=".vai-", dir=os.path.dirname(path)) as folder:
        copy = os.path.join(folder, "copy.db")
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        with closing(sqlite3.connect(copy)) as connection:
            connection.row_factory = sqlite3.Row
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > newest:
                raise HostFailed(
                    f"{path} was written by another plughost: its version is {version}, and this plughost "
                    f"supports {newest}",
                    hint="use that plughost; the file was not changed",
                )
            yield connection


def _rows(old: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, in the order in which they were stored; none when an early file lacks it."""
    if old.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
        for row in old.execute(f"SELECT * FROM {table}"):
            fields = dict(row)
            if "project_id" in fields:
                fields["project_id"] = fields["project_id"] or ""
            yield fields


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _insert(
    connection: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]], *columns: str
) -> None:
    values = ", ".join(f":{name}" for name in columns)
    connection.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})",
        ({name: _text(row.get(name)) for name in columns} for row in rows),
    )


def _state(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    _insert(new, "sessions", _rows(old, "sessions"), "session_id", "org_id", "project_id", "title")
    chain = ("chain_id", "org_id", "project_id", "session_id", "source_chain_id", "compaction_id")
    _insert(new, "chains", _rows(old, "chains"), *chain)
    blocks = ({"more": "{}", **row} for row in _rows(old, "blocks"))
    _insert(new, "blocks", blocks, "chain_id", "number", "kind", "content", "more", "once")
    run = (
        "session_id",
        "chain_id",
        "parent_run_id",
        "invocation_id",
        "export_id",
        "task",
        "status",
        "reason",
    )
    _insert(
        new,
        "runs",
        _rows(old, "runs"),
        *("run_id", "org_id", "project_id", *run, "output", "result", "started_at", "ended_at"),
    )
    events = ({**row, "created_at": time.time(), "pending": True} for row in _rows(old, "happened"))
    _insert(new, "events", events, "org_id", "project_id", "event", "created_at", "pending")


def _deliveries(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Each has its event; those of one tenant with the same text share one now."""
    numbers: dict[tuple[str, str, str], int] = {}
    for row in _rows(old, "deliveries"):
        tenant = row.get("org_id") or "", row["project_id"]
        event, now = _text(row["event"]), time.time()
        if (*tenant, event) not in numbers:
            inserted = new.execute(
                """INSERT INTO events (org_id, project_id, event, created_at, pending)
                    VALUES (?, ?, ?, ?, FALSE)""",
                (*tenant, event, now),
            )
            assert inserted.lastrowid is not None
            numbers[*tenant, event] = inserted.lastrowid
        status = STATUSES.get(row["status"], row["status"])
        new.execute(
            """INSERT INTO deliveries (delivery_id, binding_id, org_id, project_id, event_number, attempt,
                due_at, status, why, settled_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                *(row["delivery_id"], row["binding_id"], *tenant, numbers[*tenant, event], row["attempt"]),
                *(row["due_at"], status, row["why"], None if status == "pending" else now),
            ),
        )


def _invocations(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    def columns() -> Iterator[dict[str, Any]]:
        for row in _rows(old, "invocations"):
            started = msgspec.json.decode(row["began"])
            names = ("org_id", "session_id", "chain_id", "run_id", "trace_id", "started_at")
            yield {
                **{name: started.get(name) for name in names},
                "project_id": started.get("project_id") or "",
                "invocation_id": row["invocation_id"],
                "host": row["host"],
                **{name: started["bound"][name] for name in ("export_id", "binding_id", "package_version")},
                "started": row["began"],
                "status": row["status"],
                "finished": row["ended"],
            }

    ids = ("invocation_id", "host", "org_id", "project_id", "export_id", "binding_id", "package_version")
    related = ("session_id", "chain_id", "run_id", "trace_id")
    _insert(new, "invocations", columns(), *ids, *related, "started_at", "started", "status", "finished")
    events = ({**row, "logged": row["said"]} for row in _rows(old, "events"))
    _insert(new, "invocation_events", events, "invocation_id", "number", "logged")
