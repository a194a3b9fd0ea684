"""What a plugin's screen costs in a terminal, and whether it stays usable while data pours in."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter, sleep, thread_time

from benchmarks import terminal
from benchmarks.effort import Effort
from benchmarks.plugins.pictures import FRAMES, encoded
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import turns

NAME = "screen"
COLUMNS, ROWS = 80, 24
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
YARDSTICK = "60/s, json.loads of coloured runs, no host"
NOTE = f"""\
{COLUMNS}×{ROWS} in a terminal; all cells in every frame; CPU of the host with all its threads; not pinned.
The last row is no host at all: what this machine takes merely to read such frames with json.loads, with the
same pauses between them. Where that is much, the machine is slow."""


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(
        NAME,
        NOTE,
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
        [*SCENARIOS, YARDSTICK],
    )
    for name in turns(sheet.name, [*SCENARIOS, YARDSTICK], effort.screen_rounds):
        if name == YARDSTICK:
            sheet.add(name, **_decoded(*SCENARIOS[RUNS][:2], effort.screen))
            continue
        kind, rate, mib = SCENARIOS[name]
        said, drawn = terminal.run("screen", kind, rate, effort.screen, mib, columns=COLUMNS, rows=ROWS + 1)
        sheet.add(name, **said, drawn=drawn / effort.screen / 1024)
    return [sheet]


def _decoded(kind: str, rate: int, seconds: float) -> dict[str, float]:
    """Each frame when it would come: between two of them the processor forgets."""
    frames = [encoded(kind, COLUMNS, ROWS, turn) for turn in range(FRAMES)]
    times = []
    began, used = perf_counter(), thread_time()
    for number in range(round(rate * seconds)):
        sleep(max(0.0, began + number / rate - perf_counter()))
        at = perf_counter()
        json.loads(frames[number % FRAMES])
        times.append(perf_counter() - at)
    sleep(max(0.0, began + seconds - perf_counter()))
    return {
        "cpu": (thread_time() - used) / seconds * 100,  # also where so many took longer than that
        "frames": len(times) / (perf_counter() - began),
        "frame": quantile(times, 0.5) * 1e3,
        "worst frame": max(times) * 1e3,
    }
