"""Runs: units of work that harnesses start and finish, or that a bound export does for them."""

from __future__ import annotations

import secrets
import time
from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Query, Row, load_statements
from plughost.vai.state import outbox
from plughost.vai.state.outbox import Outbox
from plughost.vai.state.tenant_columns import columns, from_row

RUNNING = "running"
CANCELLED = "cancelled"
"""The status of a run that was not completed, and so has no event."""

_SQL = load_statements(__file__)
START, TAKE_TURNS, COUNT = _SQL["start"], _SQL["take_turns"], _SQL["count"]
FIND, FINISH = _SQL["find"], _SQL["finish"]
END_ALL, END_ORPHANS = _SQL["end_all"], _SQL["end_orphans"]


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
        """The tenant of the run."""
        return Scope(self.org_id, self.project_id)


class Runs:
    """The runs in the database. InvalidSpec for an unknown run."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def start(self, run: RunRecord, most: int | None = None) -> bool:
        """Stores a new run. False, and nothing is stored, when its invocation has started `most` runs
        already."""
        return await self._database.write(_start, run, most)

    async def run(self, run_id: str) -> RunRecord:
        """The run of that id."""
        row = (await self._database.read(FIND(run_id=run_id))).first()
        if row is None:
            raise InvalidSpec(f"there is no run {run_id}")
        return _run(row)

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
        ended = FINISH(
            run_id=run_id,
            status=status,
            reason=reason,
            output=output,
            result=_encoded(result),
            ended_at=time.time(),
        )
        try:
            return await self._database.write(_finish, run_id, ended)
        finally:
            self._outbox.announce()

    async def end_all_of(self, invocation_id: str, status: str, reason: str) -> None:
        """Ends the running runs of an invocation. Nobody completed them, so there is no event."""
        await self._database.write(
            END_ALL(invocation_id=invocation_id, status=status, reason=reason, ended_at=time.time())
        )

    async def end_orphans(self) -> None:
        """Ends running runs whose invocation was recorded as ended, because its host was killed."""
        await self._database.write(END_ORPHANS(now=time.time()))


def _start(run: RunRecord, most: int | None) -> Steps[bool]:
    if (yield FIND(run_id=run.run_id)).rows:
        raise InvalidSpec(f"the run {run.run_id} already exists")
    if most is not None:
        yield TAKE_TURNS(invocation_id=run.invocation_id)
        if (yield COUNT(invocation_id=run.invocation_id)).value() >= most:
            return False
    if not (yield START(**{**columns(run), "result": _encoded(run.result)})).rows:
        raise InvalidSpec(f"the run {run.run_id} already exists")
    return True


def _finish(run_id: str, finish: Query) -> Steps[bool]:
    row = (yield finish).first()
    if row is None:
        if not (yield FIND(run_id=run_id)).rows:
            raise InvalidSpec(f"there is no run {run_id}")
        return False
    run = _run(row)
    if run.status != CANCELLED:
        yield outbox.insert(run.scope, _completed(run))
    return True


def _run(row: Row) -> RunRecord:
    fields = from_row(row)
    result = fields.pop("result")
    return RunRecord(**fields, result=None if result is None else msgspec.json.decode(result))


def _encoded(result: Any) -> str | None:
    return None if result is None else msgspec.json.encode(result).decode()


def _completed(run: RunRecord) -> HookEvent:
    summary = {"task": run.task, "output": run.output, "status": run.status}
    return outbox.event("run.completed", EventSubject("run", run.run_id), summary)
