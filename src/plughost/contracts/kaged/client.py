"""kaged in its own words: calls with their context, and hooks."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from plughost.contracts.kaged.manifest import HOOK, KagedManifest
from plughost.contracts.kaged.messages import KagedContext
from plughost.errors import PluginError
from plughost.wire.messages import ABSENT


class KagedPlugin(Protocol):
    name: str

    @property
    def settings(self) -> Any: ...

    def log(self, what: str) -> None: ...

    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Any = ...,
        type: Any = ...,
    ) -> Any: ...


class Kaged:
    """A typed view of a kaged plugin."""

    def __init__(self, plugin: KagedPlugin) -> None:
        self._plugin = plugin

    @property
    def manifest(self) -> KagedManifest:
        manifest: KagedManifest = self._plugin.settings.manifest
        return manifest

    async def call(
        self,
        method: str,
        params: Any = ABSENT,
        *,
        context: KagedContext | None = None,
        timeout: float | None = None,
        type: Any = Any,
    ) -> Any:
        """One of its methods, on somebody's behalf."""
        return await self._plugin.call(method, params, timeout=timeout, context=_told(context), type=type)

    async def tool(self, name: str, params: Any = ABSENT, *, context: KagedContext | None = None) -> Any:
        """One of its tools, by the name that its manifest has for it."""
        return await self.call(f"{self._plugin.name}.{name}", params, context=context)

    async def hook(self, name: str, params: Any = ABSENT, *, context: KagedContext | None = None) -> Any:
        """Tell a plugin that wants to know. What it says to that, or None; its failure is only logged."""
        if name not in self.manifest.hooks:
            return None
        timeout = float(self.manifest.hook_timeout_sec)
        try:
            return await self._plugin.call(HOOK + name, params, timeout=timeout, context=_told(context))
        except PluginError as error:
            self._plugin.log(f"the hook {name} failed: {error.message}")
            return None


def _told(context: KagedContext | None) -> Any:
    return None if context is None else msgspec.to_builtins(context)
