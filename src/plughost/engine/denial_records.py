"""What a confined plugin was refused, as its watcher tells it (`launcher/watch.h`): bytes into records."""

from __future__ import annotations

LONGEST = 4096
"""Bytes of a record: its kind and a path."""


class DenialRecords:
    """A push decoder. What is too long to be a record is left out, and so are empty ones."""

    __slots__ = ("_rest", "_skipping")

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The records that are whole by now, without the NUL at their end."""
        *whole, rest = (self._rest + data).split(b"\0")
        if whole and self._skipping:
            whole[0] = b""
        self._skipping = len(rest) > LONGEST or (self._skipping and not whole)
        self._rest = b"" if self._skipping else rest
        return [record for record in whole if 1 < len(record) <= LONGEST]
