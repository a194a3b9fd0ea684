"""A hundred plugins that write at once, each to a file of its own: the service alone, and over the wire."""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import msgspec

import plughost
from benchmarks.effort import Effort
from benchmarks.measures.storage import SET, VALUE, bare
from benchmarks.paths import HERE, ROOT
from benchmarks.sheet import Sheet
from benchmarks.timing import in_flight, one_at_a_time_blocking
from benchmarks.turns import turns
from plughost import config
from plughost.engine.caller import Caller
from plughost.services.storage.service import Storage

NAME = "storages"
MANY = 100
BARE = "bare sqlite3, a commit each, one file after another"
SERVICE = "plughost, 100 plugins' files"
WIRE = "plughost, 100 plugins over the wire"
CONTENDERS = (BARE, SERVICE, WIRE)
LEAST = 0.5
"""Seconds: with so many in flight, one set of each takes a good part of it."""
ECHO = ROOT / "plugins" / "echo-kaged"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        NAME,
        "100 files, values of 100 B, WAL, synchronous = FULL; plugins in Python, unconfined; not pinned",
        {"rate": "sets/s"},
        CONTENDERS,
        base=BARE,
    )
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".storages-") as folder:  # /tmp may not be a disk
        asyncio.run(_measure(sheet, Path(folder), effort))
    return [sheet]


async def _measure(sheet: Sheet, folder: Path, effort: Effort) -> None:
    keys = map(str, itertools.count())
    storage = Storage(folder / "service")
    callers = itertools.cycle(
        [Caller(f"bench-{number}", 1, lambda publication: True, print) for number in range(MANY)]
    )
    for name in ("bare", "data"):
        (folder / name).mkdir()
    files = [bare(folder / "bare" / str(number)) for number in range(MANY)]
    databases = itertools.cycle(files)

    async def served() -> None:
        await storage.set(next(callers), SimpleNamespace(key=next(keys), value=msgspec.Raw(VALUE)))

    def alone() -> None:
        next(databases).execute(SET, (next(keys).encode(), VALUE))  # by itself it is a transaction

    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(plughost.Host())
        host.provide("storage", Storage(folder / "wire"))
        plugins = itertools.cycle([await host.add(_spec(folder, number)) for number in range(MANY)])
        value = msgspec.json.decode(VALUE)

        async def asked() -> None:
            await next(plugins).call("echo.keep", {"key": next(keys), "value": value}, timeout=60)

        await asyncio.gather(*(asked() for _ in range(MANY)))  # they are started
        seconds = max(effort.throughput, LEAST)
        for name in turns(sheet.name, CONTENDERS, effort.rounds):
            if name == BARE:
                rate = 1 / median(one_at_a_time_blocking(alone, seconds))
            else:
                rate = await in_flight(served if name == SERVICE else asked, MANY, seconds)
            sheet.add(name, rate=rate)
    await storage.close()
    for database in files:
        database.close()


def _spec(folder: Path, number: int) -> plughost.PluginSpec:
    """The reference plugin under a name of its own."""
    place = folder / "plugins" / f"echo-{number}"
    place.mkdir(parents=True)
    for file in ("manifest.yaml", "echo.py"):
        (place / file).write_text((ECHO / file).read_text().replace("echo-kaged", place.name))
    return msgspec.structs.replace(
        config.load_folder(place),
        command=[sys.executable, "-ISE", "echo.py"],
        grants=("declared",),
        sandbox="none",
        options={"data_root": str(folder / "data")},
    )
