"""A screen session: a host with the plugins whose screens are shown, and other plugins that those may
call."""

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
    """An open session."""

    host: Host
    plugins: list[Plugin]
    """The plugins whose screens are shown."""
    others: list[asyncio.Task[None]]
    """A task for each other plugin, done when that one is added and, if it is eager, started."""


@asynccontextmanager
async def open_session(
    shown: Sequence[PluginSpec], others: Sequence[PluginSpec]
) -> AsyncIterator[ScreenSession]:
    """A context with a host for these plugins. Shown plugins start when they are watched; of the others, the
    eager ones start at once."""
    async with _closing(Host()) as host:
        plugins = [await host.add(spec, start=False) for spec in shown]
        adding = [asyncio.create_task(_add(host, spec)) for spec in others]
        try:
            yield ScreenSession(host, plugins, adding)
        finally:
            for task in adding:
                task.cancel()
            await asyncio.gather(*adding, return_exceptions=True)


@asynccontextmanager
async def _closing(host: Host) -> AsyncIterator[Host]:
    """A host that is closed at the end of the context."""
    try:
        yield host
    finally:
        await interrupt.close(host)


async def _add(host: Host, spec: PluginSpec) -> None:
    with suppress(PluginError):  # a plugin that calls it will report that
        plugin = await host.add(spec, start=False)
        if plugin.eager:
            await plugin.start()


@asynccontextmanager
async def dispatch_events(host: Host, sources: Sequence[FrameSource]) -> AsyncIterator[None]:
    """A context in which frame sources receive the events of their plugins; they are closed at its end."""
    with host.events() as subscription:
        task = asyncio.create_task(_dispatch(subscription, sources))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, *(source.close() for source in sources), return_exceptions=True)


async def _dispatch(subscription: Subscription, sources: Sequence[FrameSource]) -> None:
    async for event in subscription:
        for source in sources:
            source.on_event(event)
