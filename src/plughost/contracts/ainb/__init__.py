"""The contract ainb: terminal screens, snapshots and command lines over Content-Length JSON-RPC."""
