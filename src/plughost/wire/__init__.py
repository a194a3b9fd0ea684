"""The wire: framing (bytes ↔ frames), messages (frames ↔ structs) and the ledger of open requests. Pure: no
I/O, no event loop, no contract."""
