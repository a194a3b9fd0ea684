"""What the storage adds to SQLite, and what it saves by sharing commits. Both sync every commit."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import msgspec

from benchmarks.effort import Effort
from benchmarks.paths import HERE
from benchmarks.sheet import Sheet
from benchmarks.timing import in_flight, one_at_a_time, one_at_a_time_blocking
from benchmarks.turns import turns
from plughost.engine.caller import Caller
from plughost.services.storage.service import Storage

NAME = "storage"
BARE = "bare sqlite3, a commit each"
ALONE = "plughost, one at a time"
SHARED = "plughost, 64 in flight"
SHARED_BARE = "bare sqlite3, 64 a commit"
CONTENDERS = (BARE, ALONE, SHARED, SHARED_BARE)
WIDTH = 64
VALUE = b'"' + b"x" * 98 + b'"'
SET = "INSERT INTO entries VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        NAME,
        "values of 100 B, WAL, synchronous = FULL; not pinned",
        {"rate": "sets/s"},
        CONTENDERS,
        base=BARE,
    )
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".storage-") as folder:  # /tmp may not be a disk
        asyncio.run(_measure(sheet, Path(folder), effort))
    return [sheet]


async def _measure(sheet: Sheet, folder: Path, effort: Effort) -> None:
    keys = map(str, itertools.count())
    storage = Storage(folder)
    caller = Caller("bench", 1, lambda publication: True, print)
    database = bare(folder / "bare.sqlite")

    async def ours() -> None:
        await storage.set(caller, SimpleNamespace(key=next(keys), value=msgspec.Raw(VALUE)))

    def theirs(count: int) -> Callable[[], None]:
        def commit() -> None:
            database.execute("BEGIN IMMEDIATE")
            for _ in range(count):
                database.execute(SET, (next(keys).encode(), VALUE))
            database.execute("COMMIT")

        return commit

    for name in turns(sheet.name, CONTENDERS, effort.rounds):
        if name == SHARED:
            rate = await in_flight(ours, WIDTH, effort.throughput)
        elif name == ALONE:
            rate = 1 / median(await one_at_a_time(ours, effort.throughput))
        else:
            count = WIDTH if name == SHARED_BARE else 1
            rate = count / median(one_at_a_time_blocking(theirs(count), effort.throughput))
        sheet.add(name, rate=rate)
    await storage.close()
    database.close()


def bare(path: Path) -> sqlite3.Connection:
    """What the storage's files are, without the storage."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE entries (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)")
    return database
