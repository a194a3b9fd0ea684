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

LARGEST = 1 << 20
"""A larger message is not repaired: its repair would hold up the event loop."""
MOST = 1000
"""How many lone surrogates are replaced in one message."""

_REPLACEMENT = rb"\\ufffd"
_LONE_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_LONE_LOW = re.compile(rb"(?<!\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F])\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class Decoder(Protocol[T_co]):
    def decode(self, frame: Frame, /) -> T_co: ...


class LoneSurrogates(ValueError):
    """A message with lone surrogates that are too many to be replaced, or that is too large for it."""


def decode_replacing(decoder: Decoder[T_co], frame: Frame) -> T_co:
    """`decoder.decode(frame)`; when that fails for lone surrogates, the same with U+FFFD for each.

    LoneSurrogates when there are too many: no repeated message will be better.
    """
    try:
        return decoder.decode(frame)
    except ValueError:
        repaired = without_lone_surrogates(frame)
        if repaired is None:
            raise
    return decoder.decode(repaired)


def without_lone_surrogates(frame: Frame) -> bytes | None:
    """JSON text with U+FFFD for each lone surrogate; None when it has none."""
    if b"\0" in frame:  # not allowed in JSON: here it masks escaped backslashes
        return None
    if len(frame) > LARGEST:
        if b"\\ud" in frame or b"\\uD" in frame:
            raise LoneSurrogates(
                f"it has lone surrogates, or is not JSON; in a message over {LARGEST} bytes none is replaced"
            )
        return None
    masked = bytes(frame).replace(rb"\\", b"\0\0")
    masked, high = _LONE_HIGH.subn(_REPLACEMENT, masked, MOST + 1)
    masked, low = _LONE_LOW.subn(_REPLACEMENT, masked, MOST + 1)
    if high + low > MOST:
        raise LoneSurrogates(f"it has more than {MOST} lone surrogates")
    return masked.replace(b"\0", b"\\") if high + low else None
