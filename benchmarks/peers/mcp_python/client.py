"""Starts MCP servers and calls their tools."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine
from typing import Any

from mcp import Client, StdioServerParameters

from benchmarks.contenders.contender import Caller
from benchmarks.peers.held import Held
from benchmarks.peers.obedience import obey

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "benchmarks.peers.mcp_python.server"])


class McpPython(Caller):
    async def open(self) -> None:
        self._held = Held()
        self._client: Client = await self._held.enter(Client(SERVER))
        await self._client.list_tools()  # so that no call has to look its schema up

    async def close(self) -> None:
        await self._held.leave()

    def call(self, params: Any, method: str = "echo") -> Coroutine[Any, Any, Any]:
        return self._client.call_tool(method, params)

    def text(self, answer: Any) -> str:
        text: str = answer.content[0].text
        return text


logging.disable()
asyncio.run(obey(McpPython, "mcp"))
