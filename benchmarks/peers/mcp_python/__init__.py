"""The MCP Python SDK, both sides."""
