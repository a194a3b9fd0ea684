"""mcptest in its own words: a request gives the plugin's response as it is."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from plughost.wire.envelope import ABSENT, NOTHING, Answer


class Asks(Protocol):
    async def ask(self, method: str, params: Any = ..., *, timeout: float | None = ...) -> Answer: ...


class PluginResponse(msgspec.Struct, frozen=True):
    """Exactly one of `result` and `error` counts: `error` is None when there is a result."""

    id: int
    result: Any = None
    error: dict[str, Any] | None = None


class Mcptest:
    """A typed view of an mcptest plugin: an application error is a response, not an exception."""

    def __init__(self, plugin: Asks) -> None:
        self._plugin = plugin

    async def request(
        self, method: str, params: Any = ABSENT, *, timeout: float | None = None
    ) -> PluginResponse:
        """Send a request; raises only host errors (SpawnFailed, PluginCrashed, TimedOut, …)."""
        answer = await self._plugin.ask(method, params, timeout=timeout)
        if answer.error is NOTHING:
            return PluginResponse(answer.id, result=msgspec.json.decode(answer.result))
        return PluginResponse(answer.id, error=msgspec.json.decode(answer.error))
