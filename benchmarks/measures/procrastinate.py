"""Deliveries beside the jobs of procrastinate, a task queue on PostgreSQL, in the same mode."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from benchmarks.backlog import BINDINGS, drain
from benchmarks.databases import POSTGRESQL, Place, databases
from benchmarks.effort import Effort
from benchmarks.filling import fill_waiting
from benchmarks.paths import PROCRASTINATE, ROOT
from benchmarks.sheet import Sheet
from benchmarks.turns import swapped
from plughost.vai.state.deliveries import MAX_CONCURRENT

NAME = "deliveries and jobs"
OURS, PEER = "plughost", "procrastinate"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    if not (PROCRASTINATE / "ok").exists():
        print(f"note: no environment in {PROCRASTINATE}; procrastinate is left out (make bench makes it)")
        return []
    note = (
        f"{effort.jobs:,} wait in PostgreSQL, each does nothing, {MAX_CONCURRENT} at a time in one process; "
        "not pinned"
    )
    sheet = Sheet(NAME, note, {"rate": "/s"}, (PEER, OURS), base=PEER)
    with databases("jobs") as new:
        if POSTGRESQL not in new:
            return []
        for name in swapped(NAME, (OURS, PEER), effort.draining_rounds):
            place = new[POSTGRESQL]()
            sheet.add(name, rate=(_ours if name == OURS else _theirs)(place, effort.jobs))
    return [sheet]


def _ours(place: Place, count: int) -> float:
    asyncio.run(fill_waiting(place, count, BINDINGS))
    return asyncio.run(drain(place, count))


def _theirs(place: Place, count: int) -> float:
    assert place.url is not None
    module = "benchmarks.peers.procrastinate.drain"
    words = (PROCRASTINATE / "bin" / "python", "-m", module, place.url, str(count), str(MAX_CONCURRENT))
    said = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    rate: float = json.loads(said)["rate"]
    return rate
