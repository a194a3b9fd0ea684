"""How long a call takes through the control socket of a running host, against a direct one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.through_socket import ThroughSocket
from benchmarks.effort import Effort
from benchmarks.paths import C_ECHO
from benchmarks.payload import SIZES
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import opened, turns

DIRECT = "plughost ↔ C, embedded"
SOCKET = "plughost ↔ C, control socket"


def label(size: str) -> str:
    return f"control socket {size}"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> list[Sheet]:
    everyone: list[Contender] = [Ours(DIRECT, C_ECHO, "lines"), ThroughSocket(SOCKET, C_ECHO)]
    sheets: list[Sheet] = []
    async with opened(everyone):
        for name, size in SIZES.items():
            note = "one call at a time; three processes instead of two; not pinned"
            sheet = Sheet(label(name), note, {"p50": "µs", "p99": "µs"}, [DIRECT, SOCKET], base=DIRECT)
            for contender in turns(sheet.name, everyone, effort.rounds):
                times = await contender.one_at_a_time(size, effort.latency)
                sheet.add(contender.name, p50=quantile(times, 0.5) * 1e6, p99=quantile(times, 0.99) * 1e6)
            sheets.append(sheet)
    return sheets
