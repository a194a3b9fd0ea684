"""How soon a key reaches a plugin, and whether events get in its way."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fresh
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

QUIET = "no events"
FLOODED = "2,000 events a second"
SCENARIOS = {QUIET: 0, FLOODED: 2000}


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        "keys",
        "from before `Ainb.key` until the C plugin has it, 50 a second; events of 1 KB; not pinned",
        {"p99": "ms", "p50": "ms", "worst": "ms", "events": "/s"},
        SCENARIOS,
        base=QUIET,
    )
    for name in turns(sheet.name, [*SCENARIOS], effort.keys_rounds):
        sheet.add(name, **fresh.run("keys", SCENARIOS[name], effort.keys))
    return [sheet]
