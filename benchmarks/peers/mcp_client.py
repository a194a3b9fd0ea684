"""Starts the MCP server, then measures calls to it whenever a line on stdin says so."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from benchmarks import payload, timing

SERVER = Path(__file__).with_name("mcp_server.py")


async def main() -> None:
    async with Client(StdioServerParameters(command=sys.executable, args=[str(SERVER)])) as client:
        await client.list_tools()  # so that no call has to look its schema up
        # The read waits in a thread: the session's own tasks go on meanwhile.
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await follow(client, **json.loads(line))), flush=True)


async def follow(client: Client, do: str, size: int = 100, width: int = 1, seconds: float = 0.0) -> Any:
    params = payload.params(size)

    async def call() -> object:
        return await client.call_tool("echo", params)

    if do == "one_at_a_time":
        return await timing.one_at_a_time(call, seconds)
    if do == "in_flight":
        return await timing.in_flight(call, width, seconds)
    return do


asyncio.run(main())
