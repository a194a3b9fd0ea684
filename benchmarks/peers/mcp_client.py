"""Starts the MCP server, then measures calls to it whenever a line on stdin says so."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from benchmarks.peers.obedience import obey

SERVER = Path(__file__).with_name("mcp_server.py")


async def main() -> None:
    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)])) as client:
        await client.list_tools()  # so that no call has to look its schema up
        await obey(lambda params: client.call_tool("echo", params))


asyncio.run(main())
