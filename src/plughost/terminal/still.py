"""One frame of a plugin, without a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import NamedTuple

from plughost.contracts.ainb import Ainb
from plughost.plugin import Plugin
from plughost.terminal.pace import Pace
from plughost.terminal.painter import Painting, paint

RATE = 20.0
PATIENCE = 5.0
"""Seconds for a picture that never comes to rest."""


class Still(NamedTuple):
    painting: Painting
    seconds: float
    """From asking for the frame until it was painted."""
    redraw: bool
    """Whether the plugin wishes that the next one follows soon."""


async def still(
    plugin: Plugin, width: int, height: int, wait: float | None, others: Collection[asyncio.Task[None]]
) -> Still:
    """A frame of a plugin that has run for `wait` seconds, or has come to rest: many show at first that they
    have nothing to show yet, until the `others` are up."""
    await plugin.start()
    view = Ainb(plugin)
    with view.shown():
        if wait is None:
            return await _at_rest(view, width, height, others)
        await asyncio.sleep(wait)
        return await _frame(view, width, height, None)


async def _at_rest(view: Ainb, width: int, height: int, others: Collection[asyncio.Task[None]]) -> Still:
    latest = time.monotonic() + PATIENCE
    if others:
        await asyncio.wait(others, timeout=PATIENCE)
    pace = Pace(RATE)
    frame = await _frame(view, width, height, None)
    while pace.after(changed=bool(frame.painting.changed), redraw=frame.redraw) == pace.interval:
        if time.monotonic() > latest:
            break
        await asyncio.sleep(pace.interval)
        frame = await _frame(view, width, height, frame)
    return frame


async def _frame(view: Ainb, width: int, height: int, last: Still | None) -> Still:
    began = time.monotonic()
    result = await view.render(width, height)
    painting = paint(result.buffer, width, height, last and last.painting)
    return Still(painting, time.monotonic() - began, result.redraw)
