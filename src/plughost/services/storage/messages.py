"""What is asked of a plugin's storage, and what is answered: values, checked before any file is touched."""

from __future__ import annotations

import msgspec

from plughost.errors import InvalidSpec

LONGEST_KEY = 1024
"""Bytes of UTF-8."""
LARGEST_VALUE = 1 << 20
"""Bytes of JSON, as it came."""
MOST_KEYS = 1000
"""In one page of a listing."""


class Get(msgspec.Struct, frozen=True):
    key: bytes


class Set(msgspec.Struct, frozen=True):
    key: bytes
    value: bytes

    def __repr__(self) -> str:  # values may be secrets
        return f"Set(key={self.key!r}, value=<{len(self.value)} bytes>)"


class DeleteKey(msgspec.Struct, frozen=True):
    key: bytes


class List(msgspec.Struct, frozen=True):
    """Keys from `first` up, but not `after` itself, and before `end`."""

    first: bytes
    after: bytes
    end: bytes
    limit: int


Request = Get | Set | DeleteKey | List


class Found(msgspec.Struct, frozen=True):
    value: msgspec.Raw | None
    found: bool


class Stored(msgspec.Struct, frozen=True):
    """Nothing to add: it is in the file."""


class Deleted(msgspec.Struct, frozen=True):
    deleted: bool


class KeyPage(msgspec.Struct, frozen=True):
    """In the order of their UTF-8 bytes; `more` come after the last."""

    keys: list[str]
    more: bool


Answer = Found | Stored | Deleted | KeyPage


def key_of(key: str) -> bytes:
    octets = _octets(key, "key")
    if not octets:
        raise InvalidSpec("a key must not be empty")
    return octets


def value_of(value: msgspec.Raw) -> bytes:
    octets = bytes(value)
    if not octets:
        raise InvalidSpec("a value must be JSON; there is none")
    if len(octets) > LARGEST_VALUE:
        raise InvalidSpec(f"a value of {len(octets)} bytes is over the limit of {LARGEST_VALUE}")
    return octets


def listing(prefix: str, after: str, limit: int) -> List:
    if not 1 <= limit <= MOST_KEYS:
        raise InvalidSpec(f"limit must be from 1 to {MOST_KEYS}, it is {limit}")
    wanted, past = _octets(prefix, "prefix"), _octets(after, "key")
    return List(max(wanted, past), past, _end_of(wanted), limit)


def _end_of(prefix: bytes) -> bytes:
    """What sorts right behind everything that starts so; no byte of UTF-8 is 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\xff"


def _octets(text: str, what: str) -> bytes:
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        raise InvalidSpec(f"a {what} must be Unicode text; half a surrogate pair is none") from None
    if len(octets) > LONGEST_KEY:
        raise InvalidSpec(f"a {what} of {len(octets)} bytes is over the limit of {LONGEST_KEY}")
    return octets
