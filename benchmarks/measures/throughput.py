"""How many calls a second go through when many are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders.contender import Contender
from benchmarks.effort import Effort
from benchmarks.roster import BARE_PYTHON, contenders
from benchmarks.sheet import Sheet
from benchmarks.turns import opened, turns

SIZE = 100
WIDTHS = (64, 256)


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return compare(contenders(peers), WIDTHS, BARE_PYTHON, effort)


def compare(everyone: Sequence[Contender], widths: Sequence[int], base: str, effort: Effort) -> list[Sheet]:
    return asyncio.run(_compare([one for one in everyone if one.pipelines], widths, base, effort))


async def _compare(
    everyone: Sequence[Contender], widths: Sequence[int], base: str, effort: Effort
) -> list[Sheet]:
    sheets: list[Sheet] = []
    async with opened(everyone):
        for width in widths:
            sheet = Sheet(
                f"throughput, {width} in flight",
                "100 B; not pinned",
                {"rate": "calls/s"},
                [contender.name for contender in everyone],
                base=base,
            )
            for contender in turns(sheet.name, everyone, effort.rounds):
                rate = await contender.in_flight(SIZE, width, effort.throughput)
                sheet.add(contender.name, rate=rate)
            sheets.append(sheet)
    return sheets
