"""What it takes to start a plugin, and what one that idles takes of its host."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.effort import Effort
from benchmarks.processes import holdings
from benchmarks.roster import YARDSTICK
from benchmarks.sheet import Sheet
from benchmarks.side_by_side.entrants import Entrant
from benchmarks.side_by_side.progress import progress
from benchmarks.stats import quantile
from benchmarks.turns import turns

SPAWN = "spawn to first answer"
IDLE = "idle, each"


def compare(everyone: Sequence[Entrant], effort: Effort) -> list[Sheet]:
    names = [entrant.name for entrant in everyone]
    spawn = Sheet(SPAWN, "not pinned", {"p50": "ms", "worst": "ms"}, names, base=YARDSTICK)
    idle = Sheet(
        IDLE,
        f"the host process alone, per plugin of {effort.plugins} that have answered one call",
        {"memory": "KiB", "fds": "", "threads": ""},
        names,
    )
    for entrant in turns("spawn and idle", everyone, effort.opening_rounds):
        progress(f"  {effort.plugins} plugins: {entrant.name}")
        took, each = _open(entrant, effort.plugins)
        spawn.add(entrant.name, p50=quantile(took, 0.5) * 1e3, worst=max(took) * 1e3)
        idle.add(entrant.name, **each)
    return [spawn, idle]


def _open(entrant: Entrant, count: int) -> tuple[list[float], dict[str, float]]:
    """In a host that has done nothing before but open one plugin."""
    apart = entrant.apart()
    with apart.started():
        apart.do("open", count=1)  # late imports and the first arenas are nobody's share
        apart.do("tidy")
        before = holdings(apart.pid)
        took: list[float] = apart.do("open", count=count)
        apart.do("tidy")
        after = holdings(apart.pid)
    return took, {what: (after[what] - before[what]) / count for what in after}
