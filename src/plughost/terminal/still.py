"""One frame of a plugin, without a terminal."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from plughost.contracts.ainb import Ainb
from plughost.plugin import Plugin
from plughost.terminal.painter import Painting, paint


class Still(NamedTuple):
    painting: Painting
    seconds: float
    """From asking for the frame until it was painted."""


async def still(plugin: Plugin, width: int, height: int, wait: float) -> Still:
    """A frame of a plugin that has run for `wait` seconds."""
    await plugin.start()
    view = Ainb(plugin)
    with view.shown():
        await asyncio.sleep(wait)
        began = time.monotonic()
        result = await view.render(width, height)
    return Still(paint(result.buffer, width, height), time.monotonic() - began)
