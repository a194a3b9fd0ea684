"""The typed client of a kaged plugin: calls with a context, tools and hooks."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from plughost.contracts.kaged.manifest import HOOK, KagedManifest
from plughost.contracts.kaged.messages import KagedContext
from plughost.contracts.plugin_calls import PluginCalls
from plughost.errors import PluginError
from plughost.wire.messages import ABSENT


class KagedPlugin(PluginCalls, Protocol):
    """The part of `plughost.Plugin` that the kaged client uses."""

    name: str

    @property
    def settings(self) -> Any: ...

    def log(self, what: str) -> None: ...


class Kaged:
    """A typed client of a kaged plugin."""

    def __init__(self, plugin: KagedPlugin) -> None:
        self._plugin = plugin

    @property
    def manifest(self) -> KagedManifest:
        """The plugin's manifest."""
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
        """Calls one of the plugin's methods; `context` says on whose behalf."""
        return await self._plugin.call(
            method, params, timeout=timeout, context=_encode_context(context), type=type
        )

    async def tool(self, name: str, params: Any = ABSENT, *, context: KagedContext | None = None) -> Any:
        """Calls one of the plugin's tools, by its name in the manifest."""
        return await self.call(f"{self._plugin.name}.{name}", params, context=context)

    async def hook(self, name: str, params: Any = ABSENT, *, context: KagedContext | None = None) -> Any:
        """Runs a hook of a plugin that subscribes to it. Returns its answer, or None; a failure is only
        logged."""
        if name not in self.manifest.hooks:
            return None
        timeout = float(self.manifest.hook_timeout_sec)
        try:
            return await self._plugin.call(
                HOOK + name, params, timeout=timeout, context=_encode_context(context)
            )
        except PluginError as error:
            self._plugin.log(f"the hook {name} failed: {error.message}")
            return None


def _encode_context(context: KagedContext | None) -> Any:
    return None if context is None else msgspec.to_builtins(context)
