"""What a plugin says, fit to be shown: a terminal must not obey it, and a line stays one line."""

from __future__ import annotations

import codecs

_CONTINUED = bytes(range(0x80, 0xC0))
_decoder = codecs.getincrementaldecoder("utf-8")


WHOLE = 200
"""Characters of a value that is told in a message."""


def brief(value: object) -> str:
    """A value in a message: all of it, or how long it is. In a part of it nobody would know a secret."""
    told = repr(value)
    return told if len(told) <= WHOLE else f"something of {len(told)} characters"


def cut_out(data: bytes) -> str:
    """Bytes from the middle of a text, without the halves of characters at both ends."""
    return _decoder("backslashreplace").decode(data.lstrip(_CONTINUED))


def visible(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return (
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape", "surrogatepass").decode()
    )
