"""A screen session: the plugins whose screens are shown, in a host of its own or in a running one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from plughost import interrupt
from plughost.control import ControlClient
from plughost.errors import PluginError
from plughost.host import Host
from plughost.screens.frame_source import FrameSource
from plughost.screens.local_plugin import LocalScreenPlugin
from plughost.screens.remote_plugin import RemoteScreenPlugin
from plughost.screens.screen_plugin import ScreenPlugin
from plughost.spec import PluginSpec


class ScreenSession(NamedTuple):
    """An open session."""

    plugins: Sequence[ScreenPlugin]
    """The plugins whose screens are shown."""
    others: Sequence[asyncio.Task[None]]
    """A task for each other plugin, done when that one is added and, if it is eager, started."""
    close: Callable[[], Awaitable[None]]
    """Closes the session's own host, or its connection to the running one."""


@asynccontextmanager
async def open_session(
    shown: Sequence[PluginSpec], others: Sequence[PluginSpec]
) -> AsyncIterator[ScreenSession]:
    """A context with a host for these plugins. Shown plugins start when they are watched; of the others,
    which the shown ones may call, the eager ones start at once."""
    async with _closing(Host()) as host:
        plugins = [LocalScreenPlugin(host, await host.add(spec, start=False)) for spec in shown]
        adding = [asyncio.create_task(_add(host, spec)) for spec in others]
        try:
            yield ScreenSession(plugins, adding, host.close)
        finally:
            for task in adding:
                task.cancel()
            await asyncio.gather(*adding, return_exceptions=True)


@asynccontextmanager
async def join_session(socket: Path, name: str) -> AsyncIterator[ScreenSession]:
    """A context with a plugin of the running host at `socket`. The plugin runs on afterwards."""
    async with ControlClient(socket) as client, RemoteScreenPlugin.watched(client, name) as plugin:
        yield ScreenSession([plugin], [], client.close)


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
async def follow_plugins(
    sources: Sequence[FrameSource], on_lost: Callable[[], object] = lambda: None
) -> AsyncIterator[None]:
    """A context in which frame sources learn of the states of their plugins; they are closed at its end. When
    the host of a plugin is lost, `on_lost` is called, and the end of the context raises why."""

    def on_done(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            on_lost()

    tasks = [asyncio.create_task(source.follow()) for source in sources]
    for task in tasks:
        task.add_done_callback(on_done)
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(source.close() for source in sources), return_exceptions=True)
