"""Finds ClientHellos later in a connection: after STARTTLS, PostgreSQL's SSLRequest, a PROXY header, or
another hello.

Everything that a plugin sends is scanned, for as long as the connection lasts. Bytes that may begin a hello
are passed on up to its list of compressions: the SNI comes after that, so by then the server has not seen a
name. The rest of the hello is held back until its SNI is checked. Whatever a lenient server might accept as a
hello counts as one, whatever version it states, and has to be well-formed then; in other data such a
beginning occurs once in some 6 GiB.
"""

from __future__ import annotations

import re

from plughost.sandbox.egress.sni import MAX_RECORDS, SniFilter, SniMismatch

_START = re.compile(rb"\x16[\x00-\x0f].[\x00-\x48].\x01", re.S)
"""A record's type, version and length, and the first byte of a ClientHello."""
_PART = re.compile(rb"\x16(?:\Z|[\x00-\x0f](?:\Z|.(?:\Z|[\x00-\x48](?:\Z|.\Z))))", re.S)
"""A part of that at the end of the data."""
MOST_STARTS = 32
"""Possible beginnings in one piece of data. Other data has one in 4 MiB; each takes time of the event
loop."""
_CONTENT_TYPES = range(20, 25)
_HANDSHAKE = 22
_LAST_MAJOR = 15
_HEADER = 5
"""Bytes before a record's content: type, version, length."""
_LENGTH = slice(1, 4)
"""Of a message, after its type."""
_LONGEST = b"\x02\x01"
"""The first two bytes of the largest length that servers take: OpenSSL's is 131,396."""
_SESSION = 1 + 3 + 2 + 32
"""Where the length of a hello's session is: after its type, length, version and random."""
_LOOK = 20 << 10
"""Bytes within which it has to be seen whether it is a hello: the longest record, and the next header."""


class LateSniFilter:
    """Passes a plugin's bytes on, except a ClientHello that does not name `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen = b""
        """The bytes from where a hello may have begun."""
        self._passed = 0
        """How many of those were passed on already."""
        self._needed = 0
        """How many of those must be there before the next step."""

    def feed(self, data: bytes) -> bytes:
        """Returns the bytes that may be passed on by now; SniMismatch when a hello never may."""
        seen = self._seen = self._seen + data
        if len(seen) < self._needed:
            return b""
        self._needed = 0
        at = starts = 0
        undecided: int | None = None
        while (at := _next_start(seen, at)) >= 0:
            starts += 1
            if starts > MOST_STARTS:
                raise SniMismatch("too much of its data looks like the start of TLS")
            is_hello = _is_hello(seen[at : at + _LOOK])
            if is_hello is None and undecided is None:
                undecided = at
            if is_hello:
                opening = SniFilter(self._name, is_second=True)
                if opening.feed(seen[at:]) is None:
                    kept = at if undecided is None else undecided
                    passed = self._pass(at, kept)
                    self._needed = at - kept + opening.needed
                    return passed
            at += 1  # inside of a valid or possible hello there may be another one
        return self._pass(len(seen), len(seen) if undecided is None else undecided)

    def end(self) -> None:
        """The plugin sends no more; SniMismatch when an incomplete hello is held back."""
        if self._passed < len(self._seen):
            raise SniMismatch("its ClientHello is incomplete")

    def _pass(self, end: int, kept: int) -> bytes:
        """Returns the bytes up to `end` that were not passed on yet; those from `kept` on are scanned
        again."""
        passing = self._seen[self._passed : end]
        self._passed = max(self._passed, end) - kept
        self._seen = self._seen[kept:]
        return passing


def _next_start(seen: bytes, at: int) -> int:
    """Where the next record may begin; -1 when none does."""
    found = _START.search(seen, at) or _PART.search(seen, max(at, len(seen) - _HEADER))
    return -1 if found is None else found.start()


def _is_hello(seen: bytes) -> bool | None:
    """Whether the records that begin here may hold a ClientHello; None while there are too few bytes to
    know."""
    message, at = b"", 0
    for _ in range(MAX_RECORDS):
        if at + _HEADER > len(seen):
            return None if len(seen) < _LOOK else True
        if seen[at] not in _CONTENT_TYPES or seen[at + 1] > _LAST_MAJOR:
            return False
        size = int.from_bytes(seen[at + 3 : at + _HEADER], "big")
        if seen[at] == _HANDSHAKE:
            message += seen[at + _HEADER : at + _HEADER + size]
        if message and (is_hello := _is_hello_message(message)) is not None:
            return is_hello
        at += _HEADER + size
    return True


def _is_hello_message(message: bytes) -> bool | None:
    """By its type, a length that servers take, and what it says before its compressions, which has to fit in.
    Its version tells nothing: servers that find the extension for versions overlook it."""
    if message[0] != 1 or message[1:3] > _LONGEST:
        return False
    if len(message) <= _SESSION:
        return None
    suites = _SESSION + 1 + message[_SESSION]
    if len(message) < suites + 2:
        return None
    size = int.from_bytes(message[suites : suites + 2], "big")
    end = suites + 2 + size
    if size < 2 or size % 2 or end >= 4 + int.from_bytes(message[_LENGTH], "big"):
        return False
    return True if len(message) >= end else None
