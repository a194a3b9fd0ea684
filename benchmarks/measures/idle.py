"""What a plugin costs the host while nobody calls it."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fresh
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

COUNTS = (1, 100, 500)


def label(count: int) -> str:
    return f"of {count} plugins"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        "idle, each",
        "C plugins that have answered one call; the host process alone",
        {"memory": "KiB", "fds": "", "threads": ""},
        map(label, COUNTS),
    )
    for count in turns(sheet.name, COUNTS, effort.idle_rounds):
        sheet.add(label(count), **fresh.run("idle", count))
    return [sheet]
