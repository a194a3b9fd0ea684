"""A host whose plugins' screens are shown: whoever is shown, and the others that these may need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from plughost import interrupt
from plughost.errors import PluginError
from plughost.events import Subscription
from plughost.host import Host
from plughost.plugin import Plugin
from plughost.screens.frame_source import FrameSource
from plughost.spec import PluginSpec


class ScreenSession(NamedTuple):
    host: Host
    plugins: list[Plugin]
    """Those that are shown."""
    others: list[asyncio.Task[None]]
    """Each is done when that one is up, if it starts at once."""


@asynccontextmanager
async def open_session(
    shown: Sequence[PluginSpec], others: Sequence[PluginSpec]
) -> AsyncIterator[ScreenSession]:
    """Those that are shown start when they are looked at; of the others the eager ones do at once."""
    async with _closed(Host()) as host:
        plugins = [await host.add(spec, start=False) for spec in shown]
        adding = [asyncio.create_task(_add(host, spec)) for spec in others]
        try:
            yield ScreenSession(host, plugins, adding)
        finally:
            for task in adding:
                task.cancel()
            await asyncio.gather(*adding, return_exceptions=True)


@asynccontextmanager
async def _closed(host: Host) -> AsyncIterator[Host]:
    """A host until its end."""
    try:
        yield host
    finally:
        await interrupt.close(host)


async def _add(host: Host, spec: PluginSpec) -> None:
    with suppress(PluginError):  # whoever needs it will say so
        plugin = await host.add(spec, start=False)
        if plugin.eager:
            await plugin.start()


@asynccontextmanager
async def fed(host: Host, feeds: Sequence[FrameSource]) -> AsyncIterator[None]:
    """Feeds that hear what happens to their plugins."""
    with host.events() as happening:
        telling = asyncio.create_task(_tell(happening, feeds))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, *(feed.close() for feed in feeds), return_exceptions=True)


async def _tell(happening: Subscription, feeds: Sequence[FrameSource]) -> None:
    async for event in happening:
        for feed in feeds:
            feed.happened(event)
