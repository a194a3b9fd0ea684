"""`python -m benchmarks.fresh.screen KIND RATE SECONDS MIB`: a screen in the terminal that this is run in.

Its plugin draws a KIND of picture RATE times a second and gets keys meanwhile; another one publishes so many
MiB to it, in chunks.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import msgspec

from benchmarks.ainb import ainb_plugin
from benchmarks.bus import TOPIC, publishing
from benchmarks.paths import C_AINB, PAINTER
from benchmarks.stats import quantile
from plughost import Plugin
from plughost.contracts.ainb.contract import KeyEvent
from plughost.contracts.ainb.messages import Char
from plughost.screens.frame_source import FrameSource
from plughost.screens.screen_plugin import ScreenPlugin
from plughost.screens.session import follow_plugins, open_session
from plughost.screens.terminal.app import ScreenApp
from plughost.screens.terminal.chrome import TabLabel

WARM = 20
"""Frames: the plugin encodes its pictures, the interpreter specialises."""
PATIENCE = 30.0
KEYS = 20
"""A second."""
CHUNK = 2 << 20


class Timed(FrameSource):
    """Keeps how long each frame took, and counts those that are waited for."""

    def __init__(self, plugin: ScreenPlugin, rate: float) -> None:
        super().__init__(plugin, rate)
        self.times: list[float] = []
        self.warm = asyncio.Event()

    def _show_frame(self, *frame: Any) -> float:
        wait = super()._show_frame(*frame)
        self.times.append(self.took)
        if self.frames == WARM:
            self.warm.set()
        return wait


async def press(source: FrameSource, end: float) -> list[float]:
    """When each key was sent."""
    sent: list[float] = []
    while (now := perf_counter()) < end:
        if not source.key("picture", KeyEvent(Char("x"))):
            sys.exit("the plugin does not run")
        sent.append(now)
        await asyncio.sleep(random.uniform(0.5, 1.5) / KEYS)
    return sent


async def measured(
    source: Timed, painter: Plugin, publisher: Plugin, seconds: float, mib: int
) -> dict[str, float]:
    await asyncio.wait_for(source.warm.wait(), PATIENCE)
    await publisher.start()
    began, used, frames, dropped = perf_counter(), process_time(), source.frames, source.dropped
    source.times.clear()
    params = publishing((mib << 20) // CHUNK, CHUNK)
    published = asyncio.create_task(publisher.call("publish", params, timeout=60)) if mib else None
    sent = await press(source, began + seconds)
    took = perf_counter() - began
    cpu = process_time() - used
    times = [*source.times]
    if published is not None:
        await published
    heard = await painter.call("heard", timeout=30)
    if len(heard["keys"]) != len(sent):
        sys.exit(f"sent {len(sent)} keys, {len(heard['keys'])} came")
    late = [came / 1e9 - went for went, came in zip(sent, heard["keys"], strict=True)]
    return {
        "cpu": cpu / took * 100,
        "frames": (source.frames - frames) / took,
        "dropped": (source.dropped - dropped) / took,
        "frame": quantile(times, 0.5) * 1e3,
        "worst frame": max(times) * 1e3,
        "key": quantile(late, 0.5) * 1e3,
        "worst key": max(late) * 1e3,
    }


async def main(kind: str, rate: float, seconds: float, mib: int) -> None:
    with TemporaryDirectory() as root:
        painting = ainb_plugin(Path(root), "painter", (*PAINTER, kind), [TOPIC])
        painting = msgspec.structs.replace(painting, options={**painting.options, "max_unread": 256 << 20})
        publishing = ainb_plugin(Path(root), "publisher", C_AINB)
        async with open_session([painting, publishing], []) as ((painter, publisher), *_):
            source = Timed(painter, rate)
            app = ScreenApp([TabLabel(source, "picture")])
            async with follow_plugins([source]):
                measuring = asyncio.create_task(
                    measured(source, painter.plugin, publisher.plugin, seconds, mib)
                )
                measuring.add_done_callback(lambda _: app.exit())
                await app.run_async()
                print(json.dumps(await measuring))


asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
