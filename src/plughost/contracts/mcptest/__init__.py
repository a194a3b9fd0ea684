"""The contract mcptest."""
