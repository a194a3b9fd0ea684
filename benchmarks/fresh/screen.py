"""`python -m benchmarks.fresh.screen KIND SECONDS`: a screen at 60 frames a second, in its terminal."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.ainb import ainb_plugin
from benchmarks.paths import PAINTER
from plughost.terminal.app import ScreenApp
from plughost.terminal.feed import Feed
from plughost.terminal.lines import Tab
from plughost.terminal.stage import fed, stage

RATE = 60
WARM = 1.0
"""Seconds: the plugin encodes its frames, the interpreter specialises."""
PATIENCE = 30.0


async def measured(feed: Feed, seconds: float) -> dict[str, float]:
    async with asyncio.timeout(PATIENCE):
        while feed.frames < RATE * WARM:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    began, used, frames, dropped = perf_counter(), process_time(), feed.frames, feed.dropped
    slowest = 0.0
    while perf_counter() - began < seconds:
        await asyncio.sleep(0.05)
        slowest = max(slowest, feed.took)
    took = perf_counter() - began
    return {
        "cpu": (process_time() - used) / took * 100,
        "frames": (feed.frames - frames) / took,
        "dropped": (feed.dropped - dropped) / took,
        "frame": slowest * 1e3,
    }


async def main(words: Sequence[str]) -> None:
    kind, seconds = words[0], float(words[1])
    with TemporaryDirectory() as root:
        spec = ainb_plugin(Path(root), "painter", (*PAINTER, kind))
        async with stage([spec], []) as (host, (plugin,)):
            feed = Feed(host, plugin, RATE)
            app = ScreenApp([Tab(feed, "picture")])
            async with fed(host, [feed]):
                measuring = asyncio.create_task(measured(feed, seconds))
                measuring.add_done_callback(lambda _: app.exit())
                await app.run_async()
                print(json.dumps(await measuring))


asyncio.run(main(sys.argv[1:]))
