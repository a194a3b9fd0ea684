"""Connections of confined plugins: an HTTP CONNECT proxy that checks host, port, address and SNI."""
