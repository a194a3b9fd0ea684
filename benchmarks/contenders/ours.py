"""plughost, as an embedding program calls it."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.ainb import ainb_plugin
from benchmarks.contenders.contender import Caller
from benchmarks.contract import headered_plugin
from plughost import Host, Plugin, PluginSpec

TIMEOUT = 30.0
"""Every call has a deadline, as real ones do."""


class Ours(Caller):
    """In lines by the mcptest contract; behind Content-Length headers by ainb, or by the benchmark's own."""

    def __init__(self, name: str, command: tuple[str, ...], framing: str, host: Host | None = None) -> None:
        """A plugin of `host`; without one, of a host of its own."""
        self.name = name
        self._command = (*command, framing)
        self._framing = framing
        self._shared = host
        self._folder: TemporaryDirectory[str] | None = None

    async def open(self) -> None:
        self._host = self._shared or Host()
        self._plugin = await self._add()
        await self._plugin.start()

    async def _add(self) -> Plugin:
        plugin_name = re.sub(r"[^A-Za-z0-9]+", "-", self.name)  # in a table it may be called anything
        if self._framing == "content-length":
            return headered_plugin(self._host, plugin_name, self._command)
        if self._framing == "ainb":
            self._folder = TemporaryDirectory()
            return await self._host.add(ainb_plugin(Path(self._folder.name), "echo", self._command))
        spec = PluginSpec(
            contract="mcptest", name=plugin_name, command=self._command, options={"max_in_flight": 256}
        )
        return await self._host.add(spec)

    async def close(self) -> None:
        await self._plugin.stop()
        if self._host is not self._shared:
            await self._host.close()
        if self._folder is not None:
            self._folder.cleanup()

    def call(self, params: Any, method: str = "echo") -> Coroutine[Any, Any, Any]:
        # Not one coroutine more than an embedding program awaits.
        return self._plugin.call(method, params, timeout=TIMEOUT)
