"""A FastMCP server. Without a schema of its own a tool's answer is text alone, and not sent twice."""

from __future__ import annotations

import logging

from fastmcp import FastMCP

from benchmarks.plugins.deeds import DEEDS

logging.disable()
server: FastMCP[None] = FastMCP("echo")
for deed in DEEDS.values():
    server.tool(deed, output_schema=None)
server.run(show_banner=False)
