"""FastMCP, both sides."""
