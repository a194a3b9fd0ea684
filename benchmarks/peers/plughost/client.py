"""`python -m benchmarks.peers.plughost.client asyncio|uvloop COMMAND...`

One host, with as many plugins as are asked for.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from benchmarks.contenders.ours import Ours
from benchmarks.peers.obedience import obey
from plughost import Host
from plughost.engine.launcher.launch import NATIVE, default_launcher


async def main(command: tuple[str, ...], *distributions: str) -> None:
    numbers = itertools.count()
    launcher = "in C" if NATIVE in default_launcher() else "in Python"  # which is slower to start
    async with Host() as host:
        await obey(
            lambda: Ours(f"plugin-{next(numbers)}", command, "lines", host), *distributions, launcher=launcher
        )


_, loop, *command = sys.argv
if loop == "uvloop":
    import uvloop

    uvloop.run(main(tuple(command), "plughost", "msgspec", "uvloop"))
else:
    asyncio.run(main(tuple(command), "plughost", "msgspec"))
