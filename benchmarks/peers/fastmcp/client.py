"""Starts FastMCP servers and calls their tools."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from benchmarks.contenders.contender import Caller
from benchmarks.peers.held import Held
from benchmarks.peers.obedience import obey

SERVER = ["-m", "benchmarks.peers.fastmcp.server"]


class FastMcp(Caller):
    async def open(self) -> None:
        self._held = Held()
        transport = StdioTransport(sys.executable, SERVER, keep_alive=False)
        self._client: Client[Any] = await self._held.enter(Client(transport))

    async def close(self) -> None:
        await self._held.leave()

    def call(self, params: Any, method: str = "echo") -> Coroutine[Any, Any, Any]:
        return self._client.call_tool(method, params)

    def text(self, answer: Any) -> str:
        text: str = answer.content[0].text
        return text


logging.disable()
asyncio.run(obey(FastMcp, "fastmcp", "mcp"))
