"""Runs: units of work that harnesses start and finish, or that a bound export does for them."""

from __future__ import annotations

import secrets
import sqlite3
import time
from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.sqlite import SqliteDatabase
from plughost.vai.state import outbox
from plughost.vai.state.outbox import Outbox

RUNNING = "running"
CANCELLED = "cancelled"
"""The status of a run that was not completed, and so has no event."""

TABLES = (
    """CREATE TABLE IF NOT EXISTS runs (run_id PRIMARY KEY, org_id NOT NULL, project_id, session_id, chain_id,
        parent_run_id, invocation_id, export_id, task NOT NULL, status NOT NULL, reason, output, result,
        started_at REAL NOT NULL, ended_at REAL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_by ON runs (invocation_id, status)",
    f"CREATE INDEX IF NOT EXISTS runs_running ON runs (run_id) WHERE status = '{RUNNING}'",
)
START = f"INSERT INTO runs VALUES ({', '.join('?' * 15)})"
COUNT = "SELECT count(*) FROM runs WHERE invocation_id = ?"
FIND = "SELECT * FROM runs WHERE run_id = ?"
FINISH = f"""UPDATE runs SET status = ?, reason = ?, output = ?, result = ?, ended_at = ?
    WHERE run_id = ? AND status = '{RUNNING}'"""
END_ALL = f"""UPDATE runs SET status = ?, reason = ?, ended_at = ?
    WHERE invocation_id = ? AND status = '{RUNNING}'"""
WITH_RUNNING = f"""SELECT DISTINCT invocation_id FROM runs
    WHERE status = '{RUNNING}' AND invocation_id IS NOT NULL"""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as it is stored."""

    run_id: str = msgspec.field(default_factory=lambda: f"run_{secrets.token_hex(8)}")
    org_id: str
    project_id: str | None = None
    session_id: str | None = None
    chain_id: str | None = None
    parent_run_id: str | None = None
    invocation_id: str | None = None
    """The invocation that started it."""
    export_id: str | None = None
    """The bound export that does the work; without one the parent does it and reports the end."""
    task: str = ""
    status: str = RUNNING
    """running, or one of the terminal statuses."""
    reason: str | None = None
    output: str | None = None
    """The result in words, for people."""
    result: Any = None
    """The result of the export."""
    started_at: float = msgspec.field(default_factory=time.time)
    """Seconds since 1970."""
    ended_at: float | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.org_id, self.project_id)


class Runs:
    """The runs in the state database. InvalidSpec for an unknown run."""

    def __init__(self, database: SqliteDatabase, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def start(self, run: RunRecord, most: int | None = None) -> bool:
        """Stores a new run. False, and nothing is stored, when its invocation has started `most` runs
        already."""
        return await self._database.do(lambda connection: _start(connection, run, most))

    async def run(self, run_id: str) -> RunRecord:
        """The run of that id."""
        return await self._database.do(lambda connection: _run(connection, run_id))

    async def finish(
        self,
        run_id: str,
        status: str,
        *,
        reason: str | None = None,
        output: str | None = None,
        result: Any = None,
    ) -> bool:
        """Ends a run; False when it has ended already. A completed run adds an event to the outbox."""
        encoded = None if result is None else msgspec.json.encode(result)
        values = (status, reason, output, encoded, time.time(), run_id)
        try:
            return await self._database.do(lambda connection: _finish(connection, run_id, status, values))
        finally:
            self._outbox.announce()

    async def end_all_of(self, invocation_id: str, status: str, reason: str) -> None:
        """Ends the running runs of an invocation. Nobody completed them, so there is no event."""
        values = (status, reason, time.time(), invocation_id)
        await self._database.run(END_ALL, values)

    async def invocations_with_running(self) -> list[str]:
        """The ids of the invocations that have running runs."""
        return await self._database.do(
            lambda connection: [row["invocation_id"] for row in connection.execute(WITH_RUNNING)]
        )


def _start(connection: sqlite3.Connection, run: RunRecord, most: int | None) -> bool:
    if connection.execute(FIND, (run.run_id,)).fetchone() is not None:
        raise InvalidSpec(f"the run {run.run_id} already exists")
    if most is not None and connection.execute(COUNT, (run.invocation_id,)).fetchone()[0] >= most:
        return False
    connection.execute(START, msgspec.structs.astuple(run))
    return True


def _run(connection: sqlite3.Connection, run_id: str) -> RunRecord:
    row = connection.execute(FIND, (run_id,)).fetchone()
    if row is None:
        raise InvalidSpec(f"there is no run {run_id}")
    result = row["result"]
    return RunRecord(**{**dict(row), "result": None if result is None else msgspec.json.decode(result)})


def _finish(connection: sqlite3.Connection, run_id: str, status: str, values: tuple[Any, ...]) -> bool:
    run = _run(connection, run_id)
    if not connection.execute(FINISH, values).rowcount:
        return False
    if status != CANCELLED:
        outbox.insert(connection, run.scope, _completed(_run(connection, run_id)))
    return True


def _completed(run: RunRecord) -> HookEvent:
    summary = {"task": run.task, "output": run.output, "status": run.status}
    return outbox.event("run.completed", EventSubject("run", run.run_id), summary)
