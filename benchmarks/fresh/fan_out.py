"""`python -m benchmarks.fresh.fan_out SUBSCRIBERS COUNT SIZE`: one plugin publishes, others hear it.

The clock stops when the last subscriber has told what it heard.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.ainb import ainb_plugin
from benchmarks.bus import TOPIC, astray, publishing
from benchmarks.paths import C_AINB
from plughost import Host

PATIENCE = 60.0


async def main(listeners: int, count: int, size: int) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        async with Host() as host:
            publisher = await host.add(ainb_plugin(root, "publisher", C_AINB))
            subscribers = [
                await host.add(ainb_plugin(root, f"subscriber-{number}", C_AINB, [TOPIC]))
                for number in range(listeners)
            ]
            for plugin in (publisher, *subscribers):
                await plugin.start()
            began, spent = perf_counter(), process_time()
            await publisher.call("publish", publishing(count, size), timeout=PATIENCE)
            heard = await asyncio.gather(*(one.call("heard", timeout=PATIENCE) for one in subscribers))
            seconds, cpu = perf_counter() - began, process_time() - spent
    print(json.dumps({"seconds": seconds, "cpu": cpu, "astray": astray(heard, count)}))


asyncio.run(main(*map(int, sys.argv[1:])))
