"""RemoteScreenPlugin: the screens of a plugin of a running host, through its control socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any

from plughost.clock import Clock
from plughost.contracts.ainb.contract import Ainb
from plughost.control import ControlClient
from plughost.errors import PluginError

STDERR_PERIOD = 1.0
"""Seconds between two requests for the stderr lines, and for an answer to each."""


class RemoteScreenPlugin:
    """A plugin that a running host shares with others, and that outlives its viewers: a `ScreenPlugin`."""

    def __init__(self, client: ControlClient, name: str, state: dict[str, Any]) -> None:
        self.name = name
        self._client = client
        self._plugin = client.plugin(name)
        self.view = Ainb(self._plugin, shared=True)
        self._state = state
        self._on_change: Callable[[], object] = lambda: None
        self._reading: asyncio.Task[None] | None = None
        self._stderr: list[str] = []
        self._stderr_due = 0.0

    @classmethod
    @asynccontextmanager
    async def watched(cls, client: ControlClient, name: str) -> AsyncIterator[RemoteScreenPlugin]:
        """The plugin, whose state is up to date within the context."""
        states = client.watch(name)
        plugin = cls(client, name, await anext(states))
        reading = plugin._reading = asyncio.create_task(plugin._read(states))
        try:
            yield plugin
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, states: AsyncGenerator[dict[str, Any], None]) -> None:
        async for state in states:
            self._state = state
            self._on_change()

    @property
    def clock(self) -> Clock:
        return self._plugin.clock

    @property
    def state(self) -> str:
        return str(self._state["state"])

    @property
    def failure(self) -> str:
        return str((self._state["failure"] or {}).get("message", ""))

    async def follow(self, on_change: Callable[[], object]) -> None:
        self._on_change = on_change
        if self._reading is not None:
            await asyncio.shield(self._reading)

    def shown(self) -> AbstractContextManager[None]:
        return self.view.shown()

    async def start(self) -> None:
        """Start it if it is idle. One that was stopped or has failed is started by the operator's word only:
        until then a frame fails with the reason."""
        if self.state in ("Idle", "Spawning"):
            await self._client.start(self.name)

    async def restart(self) -> None:
        await self._client.restart(self.name)

    def kill_if_own(self) -> None:
        """Do nothing: the plugin belongs to the host."""

    async def stderr_tail(self) -> list[str]:
        """Its stderr lines that the host has kept, at most a second old. Without an answer, the last ones."""
        if self.clock.time() >= self._stderr_due:
            self._stderr_due = self.clock.time() + STDERR_PERIOD
            with suppress(PluginError, TimeoutError):
                async with asyncio.timeout(STDERR_PERIOD):
                    lines = [line async for line in self._client.logs(self.name)]
                    self._stderr = [line["message"] for line in lines if line["source"] == "stderr"]
        return self._stderr
