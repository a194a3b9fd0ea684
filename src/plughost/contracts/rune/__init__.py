"""The contract rune: one process per call, over newline-delimited JSON."""
