"""The typed client of a rune plugin: executes a tool, returns its output and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.contracts.plugin_calls import PluginCalls
from plughost.contracts.rune.errors import MalformedResponse
from plughost.contracts.rune.messages import RuneAnswer
from plughost.wire.messages import ABSENT, Response, decode


class RuneResult(msgspec.Struct, frozen=True):
    """The output and the metadata of an executed tool."""

    output: Any
    metadata: dict[str, Any]


class Rune:
    """A typed client of a rune plugin."""

    def __init__(self, plugin: PluginCalls) -> None:
        self._plugin = plugin

    async def execute(
        self,
        tool: str,
        input: Any = ABSENT,
        *,
        context: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> RuneResult:
        """Runs `tool` in a process of its own. Raises ExecutionError when the plugin answers with an
        error."""
        answer: RuneAnswer = await self._plugin.call(
            tool, input, timeout=timeout, context=context, type=Response
        )
        metadata = {name: decode(value, MalformedResponse) for name, value in (answer.metadata or {}).items()}
        return RuneResult(decode(answer.result, MalformedResponse), metadata)
