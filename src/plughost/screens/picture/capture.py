"""Captures one frame of a plugin, without a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import NamedTuple

from plughost.clock import done_within
from plughost.contracts.ainb.contract import Ainb
from plughost.errors import Timeout
from plughost.host import Host
from plughost.plugin import Plugin
from plughost.screens.frame_rate import FrameRate
from plughost.screens.render import Rendering, render
from plughost.screens.stderr_tail import last_words
from plughost.screens.terminal.error_panel import LAST_LINES

RATE = 20.0
PATIENCE = 5.0
"""Seconds to wait for a screen that never stops changing."""
LONGEST = 20.0
"""Seconds for the whole capture: a plugin that hangs in its start gets less time than its contract gives
it."""


class Capture(NamedTuple):
    """One captured frame."""

    painting: Rendering
    seconds: float
    """Seconds from the request of the frame until it was rendered."""
    redraw: bool
    """Whether the plugin asks for another frame soon."""


async def capture(
    host: Host,
    plugin: Plugin,
    width: int,
    height: int,
    wait: float | None,
    others: Collection[asyncio.Task[None]],
) -> Capture:
    """Capture a frame after `wait` seconds, or by default once the screen has stopped changing: many plugins
    show an empty screen at first, until the `others` are up. Timeout when there is no frame."""
    limit = LONGEST + (wait or 0)
    drawing = asyncio.ensure_future(_drawn(plugin, width, height, wait, others))
    try:
        if await done_within(plugin.clock, limit, drawing):
            return drawing.result()
    finally:
        drawing.cancel()
        await asyncio.wait({drawing})
    what = "no picture" if plugin.state == "Running" else "not ready"
    plugin.kill()  # there is no point in waiting for its shutdown
    said = "\n".join(last_words(host, plugin.name)[-LAST_LINES:])
    raise Timeout(f"{what} within {limit:g} s", plugin=plugin.name, stderr_tail=said)


async def _drawn(
    plugin: Plugin, width: int, height: int, wait: float | None, others: Collection[asyncio.Task[None]]
) -> Capture:
    await plugin.start()
    view = Ainb(plugin)
    with view.shown():
        if wait is None:
            return await _at_rest(view, width, height, others)
        await asyncio.sleep(wait)
        return await _frame(view, width, height, None)


async def _at_rest(view: Ainb, width: int, height: int, others: Collection[asyncio.Task[None]]) -> Capture:
    latest = time.monotonic() + PATIENCE
    if others:
        await asyncio.wait(others, timeout=PATIENCE)
    pace = FrameRate(RATE)
    frame = await _frame(view, width, height, None)
    while pace.after(changed=bool(frame.painting.changed), redraw=frame.redraw) == pace.interval:
        if time.monotonic() > latest:
            break
        await asyncio.sleep(pace.interval)
        frame = await _frame(view, width, height, frame)
    return frame


async def _frame(view: Ainb, width: int, height: int, last: Capture | None) -> Capture:
    began = time.monotonic()
    result = await view.render(width, height)
    painting = render(result.buffer, width, height, last and last.painting)
    return Capture(painting, time.monotonic() - began, result.redraw)
