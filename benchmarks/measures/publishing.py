"""Publishing an event, a synced transaction each, beside bare statements of the same driver."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

from benchmarks import timing
from benchmarks.databases import DATABASES, SQLITE, Place, databases
from benchmarks.effort import Effort
from benchmarks.filling import EVENT, TENANT
from benchmarks.sheet import Sheet
from benchmarks.stats import Spread
from benchmarks.turns import swapped
from plughost.vai.database.open_database import FILE
from plughost.vai.state import outbox
from plughost.vai.state.outbox import INSERT, Outbox

WIDTH = 8
OURS = "plughost"
ROW = outbox.insert(TENANT, EVENT).values
"""Made once: bare statements do nothing but execute."""

Rate = Callable[[float], Awaitable[float]]
"""Events a second, measured for so many seconds."""


def label(database: str) -> str:
    return f"publishing events, {database}"


def over_bare(sheet: Sheet) -> Spread:
    assert sheet.base is not None
    return sheet.ratio("rate", OURS, sheet.base)


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    with databases("publishing") as new:
        return [asyncio.run(_measure(database, new[database], effort)) for database in DATABASES]


async def _measure(database: str, new: Callable[[], Place], effort: Effort) -> Sheet:
    bare = BARE_SQLITE if database == SQLITE else BARE_POSTGRESQL
    note = f"a synced transaction for each event, {WIDTH} callers; 1 × is the fastest of the bare contenders"
    sheet = Sheet(label(database), note, {"rate": "events/s"}, [*bare, OURS])
    async with AsyncExitStack() as stack:
        rates = {}
        for name, contender in {**bare, OURS: ours}.items():
            place = await asyncio.to_thread(new)
            await _create(place)
            rates[name] = await stack.enter_async_context(contender(place))
            await rates[name](effort.publishing)  # connections are made, statements prepared
        for name in swapped(sheet.name, [*rates], effort.rounds):
            sheet.add(name, rate=await rates[name](effort.publishing))
    sheet.base = max(bare, key=lambda name: sheet.spread(name, "rate").median)
    return sheet


async def _create(place: Place) -> None:
    """The tables: everyone has their own."""
    database = place.database()
    await database.open()
    await database.close()


@asynccontextmanager
async def ours(place: Place) -> AsyncIterator[Rate]:
    database = place.database()
    published = Outbox(database)
    yield lambda seconds: timing.in_flight(lambda: published.add(TENANT, EVENT), WIDTH, seconds)
    await database.close()


def _connect(place: Place) -> sqlite3.Connection:
    path = Path(place.folder) / FILE
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


@asynccontextmanager
async def one_connection(place: Place) -> AsyncIterator[Rate]:
    """Whoever calls executes, and nobody waits for a lock or a thread."""
    with closing(_connect(place)) as connection:

        async def rate(seconds: float) -> float:
            times = timing.one_at_a_time_blocking(lambda: connection.execute(INSERT.sqlite, ROW), seconds)
            return len(times) / sum(times)

        yield rate


@asynccontextmanager
async def threads(place: Place) -> AsyncIterator[Rate]:
    """Who of them writes, the lock of the file decides."""
    connections = [_connect(place) for _ in range(WIDTH)]
    idle = [*connections]
    loop = asyncio.get_running_loop()

    def execute() -> None:
        connection = idle.pop()
        connection.execute(INSERT.sqlite, ROW)
        idle.append(connection)

    with ThreadPoolExecutor(WIDTH) as pool:
        yield lambda seconds: timing.in_flight(lambda: loop.run_in_executor(pool, execute), WIDTH, seconds)
    for connection in connections:
        connection.close()


@asynccontextmanager
async def own_connections(place: Place) -> AsyncIterator[Rate]:
    import asyncpg

    connections = [await asyncpg.connect(place.url) for _ in range(WIDTH)]
    values = INSERT.arguments(ROW)
    # Each is used by one caller at a time: as many callers as connections, and each takes the idle one.
    idle = [*connections]

    async def execute() -> None:
        connection = idle.pop()
        await connection.execute(INSERT.postgresql, *values)
        idle.append(connection)

    yield lambda seconds: timing.in_flight(execute, WIDTH, seconds)
    for connection in connections:
        await connection.close()


@asynccontextmanager
async def pool(place: Place) -> AsyncIterator[Rate]:
    import asyncpg

    values = INSERT.arguments(ROW)
    async with asyncpg.create_pool(place.url, min_size=WIDTH, max_size=WIDTH) as connections:
        yield lambda seconds: timing.in_flight(
            lambda: connections.execute(INSERT.postgresql, *values), WIDTH, seconds
        )


BARE_SQLITE = {
    "bare sqlite3, one thread and connection, one at a time": one_connection,
    f"bare sqlite3, {WIDTH} threads with a connection each": threads,
}
BARE_POSTGRESQL = {
    f"bare asyncpg, {WIDTH} connections": own_connections,
    f"bare asyncpg, its pool of {WIDTH}": pool,
}
