"""Replaces lone surrogate escapes (`"\\ud83d"` without its other half) in JSON text with U+FFFD.

JSON's grammar allows them: JavaScript writes one whenever it cuts a string in the middle of an emoji. Our
decoder refuses them, so a message that it refused is decoded once more with U+FFFD in their place, as Go and
browsers do. A message that decodes at once pays nothing for this.
"""

from __future__ import annotations

import re
from typing import Protocol, TypeVar

from plughost.wire.framing import Frame

T_co = TypeVar("T_co", covariant=True)

MAX_SIZE = 1 << 20
"""Bytes of a message; a larger one is not repaired, because that would hold up the event loop."""
MAX_REPLACED = 1000
"""Lone surrogates that are replaced in one message."""

_REPLACEMENT = rb"\\ufffd"
_LONE_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_LONE_LOW = re.compile(rb"(?<!\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F])\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class Decoder(Protocol[T_co]):
    """A JSON decoder for one type, such as `msgspec.json.Decoder`."""

    def decode(self, frame: Frame, /) -> T_co: ...


class LoneSurrogates(ValueError):
    """Raised for a message with too many lone surrogates, or one that is too large to be repaired."""


def decode_replacing(decoder: Decoder[T_co], frame: Frame) -> T_co:
    """Decode a frame; if that fails because of lone surrogates, decode it again with U+FFFD in their place.

    Raises LoneSurrogates when there are too many: then no better message will follow.
    """
    try:
        return decoder.decode(frame)
    except ValueError:
        repaired = without_lone_surrogates(frame)
        if repaired is None:
            raise
    return decoder.decode(repaired)


def without_lone_surrogates(frame: Frame) -> bytes | None:
    """The JSON text with U+FFFD in place of each lone surrogate; None when it has none."""
    if b"\0" in frame:  # not allowed in JSON: here it masks escaped backslashes
        return None
    if len(frame) > MAX_SIZE:
        if b"\\ud" in frame or b"\\uD" in frame:
            raise LoneSurrogates(
                "it is not JSON, or it has lone surrogates, which are replaced only in messages of at most "
                f"{MAX_SIZE} bytes"
            )
        return None
    masked = bytes(frame).replace(rb"\\", b"\0\0")
    masked, high = _LONE_HIGH.subn(_REPLACEMENT, masked, MAX_REPLACED + 1)
    masked, low = _LONE_LOW.subn(_REPLACEMENT, masked, MAX_REPLACED + 1)
    if high + low > MAX_REPLACED:
        raise LoneSurrogates(f"it has more than {MAX_REPLACED} lone surrogates")
    return masked.replace(b"\0", b"\\") if high + low else None
