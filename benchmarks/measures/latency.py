"""How long one call takes when nothing else is going on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.contenders.contender import Contender
from benchmarks.effort import Effort
from benchmarks.payload import SIZES
from benchmarks.pinning import pinned_to, two_sides
from benchmarks.roster import YARDSTICK, contenders
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import opened, turns


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return compare(contenders(peers), SIZES, effort)


def compare(everyone: Sequence[Contender], sizes: Mapping[str, int], effort: Effort) -> list[Sheet]:
    # Where two processes run matters more than what they do: all pairs share one CPU.
    with pinned_to(two_sides()[0]):
        return asyncio.run(_compare(everyone, sizes, effort))


async def _compare(everyone: Sequence[Contender], sizes: Mapping[str, int], effort: Effort) -> list[Sheet]:
    sheets: list[Sheet] = []
    async with opened(everyone):
        # Small ones first: a process that has freed a large block allocates differently ever after.
        for label, size in sizes.items():
            sheet = Sheet(
                f"latency {label}",
                "one call at a time; both processes on one CPU",
                {"p50": "µs", "p99": "µs"},
                [contender.name for contender in everyone],
                base=YARDSTICK,
            )
            for contender in turns(sheet.name, everyone, effort.rounds):
                times = await contender.one_at_a_time(size, effort.latency)
                sheet.add(contender.name, p50=quantile(times, 0.5) * 1e6, p99=quantile(times, 0.99) * 1e6)
            sheets.append(sheet)
    return sheets
