"""What a plugin's screen costs in a terminal, and whether it stays usable while data pours in."""

from __future__ import annotations

from pathlib import Path

from benchmarks import terminal
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

NAME = "screen"
STILL = "60/s, nothing changes"
RUNS = "60/s, every row of coloured runs moves"
WORST = "60/s, every cell differs (worst case)"
CROWDED = "30/s, beside 64 MiB in chunks"
SCENARIOS = {
    STILL: ("still", 60, 0),
    RUNS: ("runs", 60, 0),
    WORST: ("mixed", 60, 0),
    CROWDED: ("runs", 30, 64),
}
"""By name: which picture, how often, and how many MiB its plugin gets meanwhile."""


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        NAME,
        "80×24 in a terminal; all cells in every frame; CPU of the host with all its threads; not pinned",
        {
            "cpu": "%",
            "frames": "/s",
            "dropped": "/s",
            "frame": "ms",
            "worst frame": "ms",
            "key": "ms",
            "worst key": "ms",
            "drawn": "KiB/s",
        },
        SCENARIOS,
    )
    for name in turns(sheet.name, [*SCENARIOS], effort.screen_rounds):
        kind, rate, mib = SCENARIOS[name]
        said, drawn = terminal.run("screen", kind, rate, effort.screen, mib)
        sheet.add(name, **said, drawn=drawn / effort.screen / 1024)
    return [sheet]
