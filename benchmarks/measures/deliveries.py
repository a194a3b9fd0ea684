"""Events and deliveries on both databases: publishing beside bare statements of the driver, and draining."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.support.postgres import programs, server

from benchmarks.effort import Effort
from benchmarks.paths import HERE
from benchmarks.sheet import Sheet
from plughost.clock import best_clock
from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.open_database import open_database
from plughost.vai.state import outbox
from plughost.vai.state.deliveries import Deliveries
from plughost.vai.state.delivery_table import Delivery, insert, new_delivery_id
from plughost.vai.state.leases import ProcessLease
from plughost.vai.state.outbox import INSERT, Outbox

PUBLISHING, DRAINING = "publishing events", "draining deliveries"
AT_ONCE = 8
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
TENANT = Scope("org", "project")
BINDINGS = FixedBindings(
    Binding(
        binding_id=f"bind_{number}",
        package_id="bench/echo",
        package_version="1",
        export_id="hook",
        scope=TENANT,
    )
    for number in range(4)
)
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

Publish = Callable[[int], Awaitable[object]]


def ours(database: str) -> str:
    return f"plughost, {database}"


def bare(database: str) -> str:
    return f"bare statements, {database}"


def event(number: int) -> HookEvent:
    return HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", f"run_{number}"),
        summary={"task": "Fix auth redirect bug"},
    )


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    databases = [SQLITE, *([POSTGRESQL] if programs() else [])]
    publishing = Sheet(
        PUBLISHING,
        f"a synced transaction for each event, {AT_ONCE} at a time; not pinned",
        {"rate": "events/s"},
        [name(database) for database in databases for name in (bare, ours)],
        base=bare(SQLITE),
    )
    count = 100_000 if effort.rounds > 5 else 10_000
    draining = Sheet(
        DRAINING,
        f"{count} deliveries of four bindings that wait, with a hook that does nothing; not pinned",
        {"rate": "deliveries/s"},
        [ours(database) for database in databases],
    )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=HERE, prefix=".deliveries-"))
        running = stack.enter_context(server(DURABLE)) if POSTGRESQL in databases else None
        for number in range(3):
            for database in databases:
                url = None if database == SQLITE or running is None else asyncio.run(running.create())
                place = Path(folder) / f"{database}-{number}"
                place.mkdir()
                asyncio.run(_publish(publishing, database, place, url))
                asyncio.run(_drain(draining, database, place, url, count))
    return [publishing, draining]


async def _rate(publish: Publish, seconds: float = 2.0) -> float:
    """Events a second, by as many callers as are at it at once."""
    numbers, done = itertools.count(), 0
    end = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await publish(next(numbers))
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return done / (time.perf_counter() - began)


async def _publish(sheet: Sheet, name: str, folder: Path, url: str | None) -> None:
    database = open_database(str(folder), url)
    await database.open()
    store = Outbox(database)
    row = outbox.insert(TENANT, event(0))
    sheet.add(ours(name), rate=await _rate(lambda number: store.add(TENANT, event(number))))
    if url is None:
        connections = [_connect(str(folder / "vai.db")) for _ in range(AT_ONCE)]
        turns = itertools.cycle(connections)

        def execute(connection: sqlite3.Connection) -> None:
            connection.execute(INSERT.sqlite, row.values)

        sheet.add(bare(name), rate=await _rate(lambda _: asyncio.to_thread(execute, next(turns))))
        for connection in connections:
            connection.close()
    else:
        import asyncpg

        values = INSERT.arguments(row.values)
        async with asyncpg.create_pool(url, min_size=AT_ONCE, max_size=AT_ONCE) as pool:
            sheet.add(bare(name), rate=await _rate(lambda _: pool.execute(INSERT.postgresql, *values)))
    await database.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _waiting(numbers: range) -> Steps[None]:
    for number in numbers:
        stored = (yield outbox.insert_handled(TENANT, event(number))).value()
        yield insert([(new_delivery_id(), f"bind_{number % 4}", TENANT, stored)], time.time() - 1)


def _ranges(count: int) -> Iterator[range]:
    return (range(start, min(start + 1000, count)) for start in range(0, count, 1000))


async def _drain(sheet: Sheet, name: str, folder: Path, url: str | None, count: int) -> None:
    database: Database = open_database(str(folder), url)
    for numbers in _ranges(count):
        await database.write_unsynced(_waiting, numbers)
    clock, finished, done = best_clock(asyncio.get_running_loop()), asyncio.Event(), 0

    async def nothing(delivery: Delivery) -> tuple[str, str | None]:
        nonlocal done
        done += 1
        if done == count:
            finished.set()
        return "succeeded", None

    lease = ProcessLease(database, "bench", clock)
    deliveries = Deliveries(database, lease, nothing, clock, bindings=BINDINGS)
    began = time.perf_counter()
    deliveries.start()
    await finished.wait()
    await deliveries.close()  # with the last results
    sheet.add(ours(name), rate=count / (time.perf_counter() - began))
    await lease.close()
    await database.close()
    clock.close()
