"""One frame of a plugin, without a terminal."""

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
"""Seconds for a picture that never comes to rest."""
LONGEST = 20.0
"""Seconds for all of it: one that hangs in its start is given less than its contract gives it."""


class Capture(NamedTuple):
    painting: Rendering
    seconds: float
    """From asking for the frame until it was painted."""
    redraw: bool
    """Whether the plugin wishes that the next one follows soon."""


async def capture(
    host: Host,
    plugin: Plugin,
    width: int,
    height: int,
    wait: float | None,
    others: Collection[asyncio.Task[None]],
) -> Capture:
    """A frame of a plugin that has run for `wait` seconds, or has come to rest: many show at first that they
    have nothing to show yet, until the `others` are up."""
    limit = LONGEST + (wait or 0)
    drawing = asyncio.ensure_future(_drawn(plugin, width, height, wait, others))
    try:
        if await done_within(plugin.clock, limit, drawing):
            return drawing.result()
    finally:
        drawing.cancel()
        await asyncio.wait({drawing})
    what = "no picture" if plugin.state == "Running" else "not ready"
    plugin.kill()  # nobody waits for it to say goodbye
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
