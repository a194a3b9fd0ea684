"""`python -m benchmarks.fresh.keys EVENTS SECONDS`: keys to a plugin that gets so many events a second.

The plugin notes when each key came, by the clock that `perf_counter` reads too.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.ainb import ainb_plugin
from benchmarks.bus import TOPIC, astray, numbered
from benchmarks.paths import C_AINB
from benchmarks.stats import quantile
from plughost import Host
from plughost.contracts.ainb.contract import Ainb, KeyEvent
from plughost.contracts.ainb.messages import Char

SIZE = 1024
KEYS = 50
"""A second: faster than anybody types."""
KEY = KeyEvent(Char("x"))


async def flood(host: Host, rate: int, end: float) -> int:
    """Publish at this rate until `end`; how many there were."""
    snapshots = host.service("snapshots")
    began = perf_counter()
    published = 0
    while (now := perf_counter()) < end:
        while published < (now - began) * rate:
            published += 1
            snapshots.put(TOPIC, numbered(published, SIZE))
        await asyncio.sleep(0.5 / (rate or KEYS))
    return published


async def press(plugin: Ainb, end: float) -> list[float]:
    """When each key was sent."""
    sent: list[float] = []
    while (now := perf_counter()) < end:
        if not plugin.key("screen", KEY):
            sys.exit("the plugin does not run")
        sent.append(now)
        await asyncio.sleep(random.uniform(0.5, 1.5) / KEYS)  # in step with the events it would show nothing
    return sent


async def main(rate: int, seconds: float) -> None:
    with TemporaryDirectory() as root:
        async with Host() as host:
            plugin = await host.add(ainb_plugin(Path(root), "listener", C_AINB, [TOPIC]))
            await plugin.start()
            end = perf_counter() + seconds
            published, sent = await asyncio.gather(flood(host, rate, end), press(Ainb(plugin), end))
            heard = await plugin.call("heard", timeout=30)
    if astray([heard], published) or len(heard["keys"]) != len(sent):
        sys.exit(f"sent {published} events and {len(sent)} keys; came: {heard}")
    times = [came / 1e9 - went for went, came in zip(sent, heard["keys"], strict=True)]
    print(
        json.dumps(
            {
                "p99": quantile(times, 0.99) * 1e3,
                "p50": quantile(times, 0.5) * 1e3,
                "worst": max(times) * 1e3,
                "events": published / seconds,
            }
        )
    )


asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
