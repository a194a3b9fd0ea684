"""What a quiet plugin's callers notice of a noisy one in the same host."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fresh
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

ALONE = "alone"
HUGE = "beside a 16 MiB answer a second"
FLOOD = "beside 100,000 notifications"
SCENARIOS = {ALONE: "alone", HUGE: "huge", FLOOD: "flood"}


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        "neighbour",
        "a quiet C plugin's 100 B calls, on the host's CPU; `during`: the p99 of those in the noise alone",
        {"p99": "µs", "worst": "ms", "during": "µs", "p50": "µs"},
        SCENARIOS,
        base=ALONE,
    )
    for name in turns(sheet.name, [*SCENARIOS], effort.neighbour_rounds):
        sheet.add(name, **fresh.run("neighbour", SCENARIOS[name], effort.neighbour))
    return [sheet]
