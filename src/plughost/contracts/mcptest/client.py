"""mcptest in its own words: a request gives the plugin's response as it is."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from plughost.contracts.mcptest.errors import ApplicationError, InvalidResponse
from plughost.wire.messages import ABSENT, Response, decode


class McptestCalls(Protocol):
    async def call(
        self, method: str, params: Any = ..., *, timeout: float | None = ..., type: Any = ...
    ) -> Any: ...


class PluginResponse(msgspec.Struct, frozen=True):
    """Exactly one of `result` and `error` counts: `error` is None when there is a result."""

    id: int
    result: Any = None
    error: dict[str, Any] | None = None


class Mcptest:
    """A typed view of an mcptest plugin: an application error is a response, not an exception."""

    def __init__(self, plugin: McptestCalls) -> None:
        self._plugin = plugin

    async def request(
        self, method: str, params: Any = ABSENT, *, timeout: float | None = None
    ) -> PluginResponse:
        """Send a request; raises only host errors (SpawnFailed, PluginCrashed, TimedOut, …)."""
        try:
            answer = await self._plugin.call(method, params, timeout=timeout, type=Response)
        except ApplicationError as said:
            return PluginResponse(said.id, error=said.error)
        return PluginResponse(answer.id, result=decode(answer.result, InvalidResponse))
