"""How fast deliveries that wait are made, by one process and by two, if the hook does nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.backlog import BINDINGS, drain
from benchmarks.databases import DATABASES, POSTGRESQL, databases
from benchmarks.effort import Effort
from benchmarks.filling import fill_waiting
from benchmarks.sheet import Sheet
from benchmarks.turns import swapped

NAME = "draining deliveries"
TWO = f"two processes, {POSTGRESQL}"


def one(database: str) -> str:
    return f"one process, {database}"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    ways = {one(database): (database, 1) for database in DATABASES}
    if POSTGRESQL in DATABASES:
        ways[TWO] = POSTGRESQL, 2
    note = (
        f"{effort.waiting:,} deliveries of {BINDINGS} bindings wait, until the last result is stored; "
        "processes of their own, the server beside them; not pinned"
    )
    sheet = Sheet(NAME, note, {"rate": "deliveries/s"}, ways)
    with databases("draining") as new:
        for name in swapped(NAME, [*ways], effort.draining_rounds):
            database, processes = ways[name]
            place = new[database]()
            asyncio.run(fill_waiting(place, effort.waiting, BINDINGS))
            sheet.add(name, rate=asyncio.run(drain(place, effort.waiting, processes)))
    return [sheet]
