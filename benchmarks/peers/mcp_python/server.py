"""An MCP server on the SDK's low level: its faster way."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from benchmarks.plugins.deeds import DEEDS


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[types.Tool(name=deed, input_schema={"type": "object"}) for deed in DEEDS]
    )


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = DEEDS[params.name]((params.arguments or {})["text"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


logging.disable()
asyncio.run(main())
