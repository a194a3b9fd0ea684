"""Lookup of plugins by what they provide, for services that call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Callee(Protocol):
    """A plugin that a service can call."""

    @property
    def provides(self) -> Mapping[str, tuple[str, ...]]: ...

    async def call(
        self, method: str, params: Any = ..., *, timeout: float | None = ..., type: Any = ...
    ) -> Any: ...


class PluginLookup(Protocol):
    """The plugins of a host by name."""

    @property
    def plugins(self) -> Mapping[str, Callee]: ...


def find_provider(lookup: PluginLookup, kind: str, name: str) -> tuple[str, Callee] | None:
    """The plugin that provides `name`, with its name; of several, the first by name."""
    found = [entry for entry in lookup.plugins.items() if name in entry[1].provides.get(kind, ())]
    return min(found, default=None, key=lambda entry: entry[0])
