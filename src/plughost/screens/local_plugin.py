"""LocalScreenPlugin: the screens of a plugin of a host in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from plughost.clock import Clock
from plughost.contracts.ainb.contract import Ainb
from plughost.events import Exited, StateChanged
from plughost.host import Host
from plughost.plugin import Plugin


class LocalScreenPlugin:
    """A plugin of this process's own host, which a restart replaces: a `ScreenPlugin`."""

    def __init__(self, host: Host, plugin: Plugin) -> None:
        self.name = plugin.name
        self.host = host
        self.plugin = plugin
        self.view = Ainb(plugin)
        self._pins: set[object] = set()

    @property
    def clock(self) -> Clock:
        return self.plugin.clock

    @property
    def state(self) -> str:
        return self.plugin.state

    @property
    def failure(self) -> str:
        failure = self.plugin.failure
        return "" if failure is None else failure.message

    async def follow(self, on_change: Callable[[], object]) -> None:
        with self.host.events(only=(StateChanged, Exited)) as events:
            async for event in events:
                if event.plugin == self.name:
                    on_change()

    @contextmanager
    def shown(self) -> Iterator[None]:
        pin = object()
        self._pins.add(pin)
        self.plugin.pin(pin)
        try:
            yield
        finally:
            self._pins.discard(pin)
            self.plugin.unpin(pin)

    async def start(self) -> None:
        await self.plugin.start()

    async def restart(self) -> None:
        """Kill the plugin and add it again; the next frame starts it."""
        if self.name in self.host.plugins:
            self.plugin.kill()
            await self.host.remove(self.name)
        self.plugin = await self.host.add(self.plugin.spec, start=False)
        self.view = Ainb(self.plugin)
        for pin in self._pins:
            self.plugin.pin(pin)

    def kill_if_own(self) -> None:
        self.plugin.kill()

    async def stderr_tail(self) -> list[str]:
        lines = self.host.service("logs").recent(self.name)
        return [line.message for line in lines if line.source == "stderr"]
