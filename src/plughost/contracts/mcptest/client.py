"""The typed client of an mcptest plugin: a request returns the plugin's response, also when it is an
error."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.contracts.mcptest.errors import ApplicationError, InvalidResponse
from plughost.contracts.plugin_calls import PluginCalls
from plughost.wire.messages import ABSENT, Response, decode


class PluginResponse(msgspec.Struct, frozen=True):
    """The response of an mcptest plugin. `error` is None when there is a result; exactly one of both
    counts."""

    id: int
    result: Any = None
    error: dict[str, Any] | None = None


class Mcptest:
    """A typed client of an mcptest plugin: an application error is returned as a response, not raised."""

    def __init__(self, plugin: PluginCalls) -> None:
        self._plugin = plugin

    async def request(
        self, method: str, params: Any = ABSENT, *, timeout: float | None = None
    ) -> PluginResponse:
        """Sends a request. Raises only host errors (SpawnFailed, PluginCrashed, TimedOut, …)."""
        try:
            answer = await self._plugin.call(method, params, timeout=timeout, type=Response)
        except ApplicationError as error:
            return PluginResponse(error.id, error=error.error)
        return PluginResponse(answer.id, result=decode(answer.result, InvalidResponse))
