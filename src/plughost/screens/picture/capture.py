"""Captures one frame of a plugin, without a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from plughost.clock import done_within
from plughost.contracts.ainb.client import RENDER_DEADLINE
from plughost.errors import Timeout
from plughost.screens.frame_rate import FrameRate
from plughost.screens.render import Rendering, render
from plughost.screens.screen_plugin import ScreenPlugin
from plughost.screens.terminal.error_panel import LAST_LINES

RATE = 20.0
SETTLE_TIMEOUT = 5.0
"""Seconds to wait for a screen that never stops changing."""
CAPTURE_TIMEOUT = 20.0
"""Seconds for the whole capture: a plugin that hangs in its start gets less time than its contract gives
it."""


class Capture(NamedTuple):
    """One captured frame."""

    rendering: Rendering
    seconds: float
    """Seconds from the request of the frame until it was rendered."""
    redraw: bool
    """Whether the plugin asks for another frame soon."""


async def capture(
    plugin: ScreenPlugin,
    width: int,
    height: int,
    wait: float | None,
    others: Collection[asyncio.Task[None]],
) -> Capture:
    """Capture a frame after `wait` seconds, or by default once the screen has stopped changing: many plugins
    show an empty screen at first, until the `others` are up. Timeout when there is no frame."""
    limit = CAPTURE_TIMEOUT + (wait or 0)
    drawing = asyncio.ensure_future(_capture(plugin, width, height, wait, others))
    try:
        if await done_within(plugin.clock, limit, drawing):
            return drawing.result()
    finally:
        drawing.cancel()
        await asyncio.wait({drawing})
    what = "no picture" if plugin.state == "Running" else "not ready"
    plugin.kill_if_own()  # there is no point in waiting for its shutdown
    stderr = "\n".join((await plugin.stderr_tail())[-LAST_LINES:])
    raise Timeout(f"{what} within {limit:g} s", plugin=plugin.name, stderr_tail=stderr)


async def _capture(
    plugin: ScreenPlugin, width: int, height: int, wait: float | None, others: Collection[asyncio.Task[None]]
) -> Capture:
    await plugin.start()
    with plugin.shown():
        if wait is None:
            return await _capture_settled(plugin, width, height, others)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await plugin.follow(lambda: None)  # raises as soon as a running host is lost
        return await _frame(plugin, width, height, None)


async def _capture_settled(
    plugin: ScreenPlugin, width: int, height: int, others: Collection[asyncio.Task[None]]
) -> Capture:
    latest = time.monotonic() + SETTLE_TIMEOUT
    if others:
        await asyncio.wait(others, timeout=SETTLE_TIMEOUT)
    frame_rate = FrameRate(RATE)
    frame = await _frame(plugin, width, height, None)
    while frame_rate.after(changed=bool(frame.rendering.changed), redraw=frame.redraw) == frame_rate.interval:
        if time.monotonic() > latest:
            break
        await asyncio.sleep(frame_rate.interval)
        frame = await _frame(plugin, width, height, frame)
    return frame


async def _frame(plugin: ScreenPlugin, width: int, height: int, last: Capture | None) -> Capture:
    started = time.monotonic()
    result = await plugin.view.render(width, height, deadline=RENDER_DEADLINE)
    rendering = render(result.buffer, width, height, last and last.rendering)
    return Capture(rendering, time.monotonic() - started, result.redraw)
