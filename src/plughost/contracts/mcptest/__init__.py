"""The contract mcptest: subprocess plugins over newline-delimited JSON, without a handshake."""
