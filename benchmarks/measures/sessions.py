"""session-reader and burndown on logs of a busy year, beside a script that only parses them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import fresh, session_logs
from benchmarks.effort import Effort
from benchmarks.paths import HERE
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

COSTS = "session logs, read once"
SCREEN = "session logs, on the screen"
PLAIN = "plain"
OURS = "plughost"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    costs = Sheet(
        COSTS,
        f"{effort.sessions} MB; host and session-reader from their start until everything is published",
        {"cpu": "s", "wall": "s"},
        (PLAIN, OURS),
        base=PLAIN,
    )
    screen = Sheet(
        SCREEN,
        "burndown at 30 frames and 25 keys a second while they are read, the worst of each; a line added",
        {"first": "s", "all": "s", "frame": "ms", "key": "ms", "live": "s", "memory": "MiB", "later": "MiB"},
        (OURS,),
    )
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".sessions-") as home:  # /tmp may not be a disk
        session_logs.make(Path(home), effort.sessions)
        for name in turns(costs.name, [PLAIN, OURS], effort.sessions_rounds):
            costs.add(name, **fresh.run("session_costs", home, name))
        for _ in range(effort.sessions_rounds):
            screen.add(OURS, **fresh.run("session_screen", home))
    return [costs, screen]
