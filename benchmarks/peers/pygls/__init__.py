"""pygls, both sides: JSON-RPC as it serves it, without the language server on top."""
