"""`plughost.sync` behind the asynchronous interface, so that the same tests run on both."""

from __future__ import annotations

import asyncio
from typing import Any

import plughost.sync


class AwaitedPlugin:
    def __init__(self, plugin: plughost.sync.Plugin) -> None:
        self._plugin = plugin

    def __getattr__(self, name: str) -> Any:  # name, contract, spec, state, generation, notify, kill, inspect
        return getattr(self._plugin, name)

    async def call(self, *arguments: Any, **options: Any) -> Any:
        return await asyncio.wrap_future(self._plugin.submit(*arguments, **options))

    async def start(self) -> None:
        await asyncio.to_thread(self._plugin.start)

    async def reload(self) -> None:
        await asyncio.to_thread(self._plugin.reload)

    async def stop(self) -> None:
        await asyncio.to_thread(self._plugin.stop)


class AwaitedEvents:
    def __init__(self, events: plughost.sync.Subscription) -> None:
        self._events = events

    async def get(self) -> Any:
        return await asyncio.to_thread(self._events.get, 30)

    async def __aiter__(self) -> Any:
        while (event := await self.get()) is not None:
            yield event

    def __enter__(self) -> AwaitedEvents:
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()


class AwaitedHost:
    def __init__(self, host: plughost.sync.Host) -> None:
        self._host = host

    @property
    def plugins(self) -> dict[str, AwaitedPlugin]:
        return {name: AwaitedPlugin(plugin) for name, plugin in self._host.plugins.items()}

    async def add(self, target: Any) -> AwaitedPlugin:
        return AwaitedPlugin(await asyncio.to_thread(self._host.add, target))

    async def remove(self, name: str) -> None:
        await asyncio.to_thread(self._host.remove, name)

    def events(self, limit: int = 10_000) -> AwaitedEvents:
        return AwaitedEvents(self._host.events(limit))

    async def close(self) -> None:
        await asyncio.to_thread(self._host.close)
