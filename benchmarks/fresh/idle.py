"""`python -m benchmarks.fresh.idle N`: what N idle plugins take of the host, each."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys

from benchmarks.paths import C_ECHO
from benchmarks.processes import holdings
from plughost import Host, Plugin, PluginSpec


async def idle_plugin(host: Host, name: str) -> Plugin:
    """Idle, but not unused: it has answered a call."""
    plugin = await host.add(PluginSpec(contract="mcptest", name=name, command=(*C_ECHO, "lines")))
    await plugin.call("echo", {}, timeout=10)
    return plugin


def held_now() -> dict[str, int]:
    gc.collect()
    return holdings(os.getpid())


async def main(count: int) -> None:
    async with Host() as host:
        await idle_plugin(host, "warm-up")  # late imports and the first arenas are nobody's share
        before = held_now()
        for number in range(count):
            await idle_plugin(host, f"idle-{number}")
        after = held_now()
    print(json.dumps({what: (after[what] - before[what]) / count for what in after}))


asyncio.run(main(int(sys.argv[1])))
