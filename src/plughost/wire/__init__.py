"""Bytes ↔ frames ↔ envelopes, and the ledger of open requests. Pure: no I/O, no event loop, no contract."""
