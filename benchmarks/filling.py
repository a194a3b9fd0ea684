"""Fills a database with rows by the hundred thousand, by statements that make the rows themselves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from benchmarks.databases import Place
from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.bindings.permissions import GrantedPermissions
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import load_statements, statement
from plughost.vai.records.record import Finished, RecordedBinding, Started

_SQL = load_statements(__file__)
TENANT = Scope("org", "project")
EVENT = HookEvent(
    type="run.completed",
    occurred_at="2026-03-12T19:00:00Z",
    subject=EventSubject("run", "run_1"),
    summary={"task": "Fix auth redirect bug"},
)
CHUNK = 50_000
"""Rows of one transaction."""
MONTH = 30 * 86400.0


def bindings(count: int) -> FixedBindings:
    """Those that deliveries which are filled in belong to."""
    return FixedBindings(
        Binding(
            binding_id=f"bind_{number}",
            package_id="bench/echo",
            package_version="1.0.0",
            export_id="hook",
            scope=TENANT,
        )
        for number in range(count)
    )


def _deliveries(count: int, bindings: int, status: str, at: float) -> Steps[None]:
    after = (yield _SQL["last_event"]()).value()
    event, waits = msgspec.json.encode(EVENT).decode(), status == "pending"
    yield _SQL["events"](org_id=TENANT.org_id, project_id=TENANT.project_id, event=event, at=at, count=count)
    yield _SQL["deliveries"](
        after=after,
        bindings=bindings,
        attempt=0 if waits else 1,
        due_at=at if waits else None,
        status=status,
        settled_at=None if waits else at,
    )


def _chunks(count: int) -> list[range]:
    return [range(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]


async def add_waiting(database: Database, count: int, bindings: int) -> None:
    """Deliveries that are due, each with an event of its own."""
    for chunk in _chunks(count):
        await database.write_unsynced(_deliveries, len(chunk), bindings, "pending", time.time() - 1)


async def fill_waiting(place: Place, count: int, bindings: int) -> None:
    """A new database with deliveries that are due."""
    async with _filling(place) as database:
        await add_waiting(database, count, bindings)


@asynccontextmanager
async def _filling(place: Place) -> AsyncIterator[Database]:
    """What filling leaves to be done later is done at once, so that nobody measures it."""
    database = place.database()
    indexes = (await database.read(_SQL["indexes"]())).rows
    for index in indexes:
        await database.write(statement("drop", {None: f"DROP INDEX {index['name']}"})())
    yield database
    for index in indexes:
        await database.write(statement("create", {None: index["sql"]})())
    if database.dialect == "postgresql":
        await database.write(_SQL["vacuum"]())
        await database.write(_SQL["checkpoint"]())
    await database.close()  # SQLite empties its write-ahead log with the last connection


async def fill_old(place: Place, count: int, bindings: int) -> None:
    """As many deliveries that were acknowledged, and as many records of invocations, over the last month."""
    bound = RecordedBinding(
        export_kind="tool",
        export_id="export",
        binding_id="bind",
        package_id="bench/echo",
        package_version="1.0.0",
        package_digest=f"sha256:{'0' * 64}",
        granted=GrantedPermissions(
            network="none",
            egress_domains=(),
            filesystem="none",
            scopes=(),
            execution_class="isolated",
            timeout_ms=30_000,
            max_concurrency=1,
        ),
    )
    at = time.time() - MONTH
    started = Started(
        invocation_id="inv_#",
        bound=msgspec.Raw(msgspec.json.encode(bound)),
        started_at=at,
        org_id="org",
        project_id="project",
        trace_id="trace_#",
    )
    finished = Finished(
        invocation_id="inv_#", ended_at=at, status="succeeded", confined_by=("namespaces", "seccomp")
    )
    lines = {
        "started": msgspec.json.encode(started).decode(),
        "finished": msgspec.json.encode(finished).decode(),
    }
    async with _filling(place) as database:
        for chunk in _chunks(count):
            await database.write_unsynced(_deliveries, len(chunk), bindings, "acked", at + chunk.start)
            records = _SQL["records"](first=chunk.start + 1, last=chunk.stop, at=at, **lines)
            await database.write_unsynced(records)


async def acked(place: Place) -> int:
    """How many deliveries are acknowledged."""
    database = place.database()
    count = int((await database.read(_SQL["acked"]())).value())
    await database.close()
    return count
