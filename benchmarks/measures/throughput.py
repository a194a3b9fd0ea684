"""How many calls a second go through when many are in flight."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.contenders import BARE_PYTHON, contenders
from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import opened, turns

SIZE = 100
WIDTHS = (64, 256)


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return asyncio.run(_measure(effort, peers))


async def _measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    everyone = [contender for contender in contenders(peers) if contender.pipelines]
    sheets: list[Sheet] = []
    async with opened(everyone):
        for width in WIDTHS:
            sheet = Sheet(
                f"throughput, {width} in flight",
                "100 B; not pinned",
                {"rate": "calls/s"},
                [contender.name for contender in everyone],
                base=BARE_PYTHON,
            )
            for contender in turns(sheet.name, everyone, effort.rounds):
                rate = await contender.in_flight(SIZE, width, effort.throughput)
                sheet.add(contender.name, rate=rate)
            sheets.append(sheet)
    return sheets
