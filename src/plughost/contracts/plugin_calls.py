"""PluginCalls: the method of `plughost.Plugin` that every typed client uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict, Unpack

from plughost.engine.progress import OnEvent


class CallOptions(TypedDict, total=False):
    """Options of a call that are the same in every API; `plughost.Plugin.call` explains them."""

    timeout: float | None
    context: Mapping[str, str] | None
    on_event: OnEvent | None
    priority: bool


class PluginCalls(Protocol):
    """Calls to one plugin; see `plughost.Plugin.call`."""

    async def call(
        self, method: str, params: Any = ..., *, type: Any = ..., **options: Unpack[CallOptions]
    ) -> Any: ...
