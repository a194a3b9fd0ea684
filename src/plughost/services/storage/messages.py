"""Requests to a plugin's storage and their answers, checked before any file is touched."""

from __future__ import annotations

import msgspec

from plughost.errors import InvalidSpec

MAX_KEY = 1024
"""Limit of a key in bytes of UTF-8."""
MAX_VALUE = 1 << 20
"""Limit of a value in bytes of JSON, as it came."""
MAX_KEYS = 1000
"""Keys in one page of a listing."""


class Get(msgspec.Struct, frozen=True):
    """Get the value of a key."""

    key: bytes


class Set(msgspec.Struct, frozen=True):
    """Set the value of a key."""

    key: bytes
    value: bytes

    def __repr__(self) -> str:  # values may be secrets
        return f"Set(key={self.key!r}, value=<{len(self.value)} bytes>)"


class DeleteKey(msgspec.Struct, frozen=True):
    """Delete a key."""

    key: bytes


class List(msgspec.Struct, frozen=True):
    """List keys from `first`, without `after` itself, up to but without `end`."""

    first: bytes
    after: bytes
    end: bytes
    limit: int


Request = Get | Set | DeleteKey | List


class Found(msgspec.Struct, frozen=True):
    """The answer to Get."""

    value: msgspec.Raw | None
    found: bool


class Stored(msgspec.Struct, frozen=True):
    """The answer to Set: the value is stored."""


class Deleted(msgspec.Struct, frozen=True):
    """The answer to DeleteKey: whether the key existed."""

    deleted: bool


class KeyPage(msgspec.Struct, frozen=True):
    """The answer to List: keys in the order of their UTF-8 bytes; `more` if there are further keys."""

    keys: list[str]
    more: bool


Answer = Found | Stored | Deleted | KeyPage


def key_of(key: str) -> bytes:
    """Check a key and encode it; raises InvalidSpec."""
    octets = _octets(key, "key")
    if not octets:
        raise InvalidSpec("a key must not be empty")
    return octets


def value_of(value: msgspec.Raw) -> bytes:
    """Check the size of a value; raises InvalidSpec."""
    octets = bytes(value)
    if not octets:
        raise InvalidSpec("the value is missing; it must be JSON")
    if len(octets) > MAX_VALUE:
        raise InvalidSpec(f"a value of {len(octets)} bytes is over the limit of {MAX_VALUE}")
    return octets


def listing(prefix: str, after: str, limit: int) -> List:
    """The request for a page of keys that begin with `prefix` and come after `after`."""
    if not 1 <= limit <= MAX_KEYS:
        raise InvalidSpec(f"limit must be from 1 to {MAX_KEYS}, it is {limit}")
    wanted, past = _octets(prefix, "prefix"), _octets(after, "key")
    return List(max(wanted, past), past, _end_of(wanted), limit)


def _end_of(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix`; no byte of UTF-8 is 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\xff"


def _octets(text: str, what: str) -> bytes:
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        raise InvalidSpec(f"a {what} must be valid Unicode, without unpaired surrogates") from None
    if len(octets) > MAX_KEY:
        raise InvalidSpec(f"a {what} of {len(octets)} bytes is over the limit of {MAX_KEY}")
    return octets
