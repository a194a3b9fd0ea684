"""Lists and claims among many old rows, and among few: both read what they need by an index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import timing
from benchmarks.backlog import BINDINGS, delivering
from benchmarks.databases import DATABASES, Place, databases
from benchmarks.effort import Effort
from benchmarks.filling import add_waiting, fill_old
from benchmarks.sheet import Sheet
from benchmarks.turns import swapped
from plughost.vai.database.database import Database
from plughost.vai.records.records import Records

FEW, MANY = "few old rows", "many old rows"
FEW_ROWS = 10_000
LISTED = 50
CLAIMED = 500
LISTS: dict[str, dict[str, Any]] = {
    "list": {},
    "by status": {"status": "failed"},
    "by export": {"export": "export_7"},
}
CLAIM = "claim"
METRICS = (*LISTS, CLAIM)


def label(database: str) -> str:
    return f"old rows, {database}"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    with databases("old-rows") as new:
        return [asyncio.run(_measure(database, new[database], effort)) for database in DATABASES]


async def _measure(name: str, new: Callable[[], Place], effort: Effort) -> Sheet:
    note = (
        f"{FEW_ROWS:,} or {effort.old_rows:,} old records and as many acknowledged deliveries: the newest "
        f"{LISTED} records, of all, of a status, of an export; {CLAIMED} deliveries claimed and settled"
    )
    units = {**dict.fromkeys(LISTS, "ms"), CLAIM: "ms"}
    sheet = Sheet(label(name), note, units, (FEW, MANY), base=FEW)
    opened: dict[str, Database] = {}
    for amount, count in ((FEW, FEW_ROWS), (MANY, effort.old_rows)):
        place = await asyncio.to_thread(new)
        await fill_old(place, count, BINDINGS)
        opened[amount] = place.database()
        await _claim(opened[amount])  # pages that are used are in memory, in both
    for amount in swapped(sheet.name, (FEW, MANY), effort.rounds):
        records = Records(opened[amount])
        for metric, filters in LISTS.items():
            times = await timing.one_at_a_time(lambda: records.latest(LISTED, **filters), effort.latency)  # noqa: B023
            sheet.add(amount, **{metric: median(times) * 1e3})
        sheet.add(amount, **{CLAIM: await _claim(opened[amount]) * 1e3})
    for database in opened.values():
        await database.close()
    return sheet


async def _claim(database: Database) -> float:
    """Seconds from the first look at deliveries that wait until all are settled."""
    await add_waiting(database, CLAIMED, BINDINGS)
    over, left = asyncio.Event(), CLAIMED

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            over.set()

    async with delivering(database, count) as deliveries:
        began = perf_counter()
        deliveries.start()
        await over.wait()
        await deliveries.close()  # with the last results
        return perf_counter() - began
