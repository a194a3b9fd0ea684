"""The contract kaged: daemon plugins with declared capabilities, over newline-delimited JSON-RPC."""
