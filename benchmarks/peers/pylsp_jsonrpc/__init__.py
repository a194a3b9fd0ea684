"""python-lsp-jsonrpc, both sides."""
