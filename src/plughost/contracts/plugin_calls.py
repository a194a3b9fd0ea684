"""PluginCalls: the method of `plughost.Plugin` that every typed client uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class PluginCalls(Protocol):
    """Calls to one plugin; see `plughost.Plugin.call`."""

    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Mapping[str, str] | None = ...,
        type: Any = ...,
        on_event: Any = ...,
        priority: bool = ...,
    ) -> Any: ...
