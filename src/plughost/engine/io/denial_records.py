"""Decoder of denial records: what a sandboxed plugin was refused, as its watcher writes it
(`launcher/watch.h`)."""

from __future__ import annotations

MAX_RECORD = 4096
"""Limit of a record in bytes: its kind and a path."""


class DenialRecords:
    """A push decoder from bytes to records that end with NUL. Empty and overlong records are left out."""

    __slots__ = ("_rest", "_skipping")

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; the records that they complete, without the NUL."""
        *complete, rest = (self._rest + data).split(b"\0")
        if complete and self._skipping:
            complete[0] = b""
        self._skipping = len(rest) > MAX_RECORD or (self._skipping and not complete)
        self._rest = b"" if self._skipping else rest
        return [record for record in complete if 1 < len(record) <= MAX_RECORD]
