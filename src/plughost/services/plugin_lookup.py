"""The other plugins, as services find and call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Callee(Protocol):
    @property
    def provides(self) -> Mapping[str, tuple[str, ...]]: ...

    async def call(
        self, method: str, params: Any = ..., *, timeout: float | None = ..., type: Any = ...
    ) -> Any: ...


class PluginLookup(Protocol):
    @property
    def plugins(self) -> Mapping[str, Callee]: ...


def offering(directory: PluginLookup, kind: str, word: str) -> tuple[str, Callee] | None:
    """The plugin that offers `word`; of several the first by name."""
    found = [
        (name, plugin) for name, plugin in directory.plugins.items() if word in plugin.provides.get(kind, ())
    ]
    return min(found, default=None, key=lambda entry: entry[0])
