"""What it costs to hand one plugin's publishes to many others."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fresh
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

SUBSCRIBERS = 50
PUBLISHES = 10_000
SIZE = 1024
OURS = "plughost"
BARE = "bare loop, ready-made frames"
PROGRAMS = {BARE: "bare_fan_out", OURS: "fan_out"}


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    note = f"{PUBLISHES:,} publishes of 1 KB to {SUBSCRIBERS} subscribers, all plugins in C; not pinned"
    rates = Sheet("fan-out", note, {"rate": "publishes/s", "astray": ""}, PROGRAMS, base=BARE)
    costs = Sheet("fan-out, CPU", "of the process in the middle", {"cpu": "s", "share": "%"}, PROGRAMS, BARE)
    for name in turns(rates.name, [*PROGRAMS], effort.fan_out_rounds):
        said = fresh.run(PROGRAMS[name], SUBSCRIBERS, PUBLISHES, SIZE)
        rates.add(name, rate=PUBLISHES / said["seconds"], astray=said["astray"])
        costs.add(name, cpu=said["cpu"], share=said["cpu"] / said["seconds"] * 100)
    return [rates, costs]
