"""What a plugin says, fit to be shown: a terminal must not obey it, and a line stays one line."""

from __future__ import annotations

import codecs
import json
from typing import Any

import msgspec

_CONTINUED = bytes(range(0x80, 0xC0))
_decoder = codecs.getincrementaldecoder("utf-8")


WHOLE = 200
"""Characters of a value that is told in a message."""


def brief(value: object) -> str:
    """A value in a message: all of it, or how long it is. In a part of it nobody would know a secret."""
    told = repr(value)
    return told if len(told) <= WHOLE else f"something of {len(told)} characters"


LONGEST_SAID = 16 << 10
"""Characters of a plugin's own words for a failure: they are searched for secrets on the event loop."""


def bounded(said: str, longest: int = LONGEST_SAID) -> str:
    """A plugin's own words in an error: all of them, or how many there are."""
    return said if len(said) <= longest else f"something of {len(said)} characters"


class Head(msgspec.Struct, frozen=True):
    """The beginning of a text, or all of it. It is shown by `Hidden.head` only: where it was cut, a part of a
    secret may be left, which looks like nothing that is known."""

    unhidden: str
    is_cut: bool = False

    def __repr__(self) -> str:
        return f"<Head: {len(self.unhidden)} characters>"

    __str__ = __repr__


def head(said: str, longest: int) -> Head:
    return Head(said[:longest], len(said) > longest)


def head_of_bytes(said: bytes | bytearray, longest: int) -> Head:
    """Without half of a character where it is cut; what is not text is shown as escapes."""
    if len(said) <= longest:
        return Head(bytes(said).decode(errors="backslashreplace"))
    return Head(_decoder("backslashreplace").decode(bytes(said[:longest])), is_cut=True)


def cut_out(data: bytes) -> str:
    """Bytes from the middle of a text, without the halves of characters at both ends."""
    return _decoder("backslashreplace").decode(data.lstrip(_CONTINUED))


def visible(text: str) -> str:
    """Text on one line with nothing in it that a terminal obeys: controls, directions and whatever else is
    not printable are shown as escapes."""
    return text if text.isprintable() else "".join(map(_visible, text))


def encoded_json(document: Any) -> bytes:
    """A document as JSON, whatever is in it. The name of a file need not be valid UTF-8, and a plugin chooses
    the names in its folder: what JSON cannot hold of them is shown as escapes."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(document, enc_hook=_decoded)))


def _decoded(raw: Any) -> Any:
    """What a plugin said, beside a name that cannot be encoded."""
    try:
        return json.loads(bytes(raw))
    except (TypeError, ValueError, RecursionError):
        return "cannot be shown"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value


def escaped_json(document: bytes) -> bytes:
    """JSON that means the same, on one line, with everything that is not printable as escapes."""
    if document.isascii() and document.decode().isprintable():
        return document
    try:
        text = document.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        text = document.decode(errors="replace")
    return (text if text.isprintable() else text.translate(_JSON_ESCAPES)).encode()


def _visible(character: str) -> str:
    return (
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape", "surrogatepass").decode()
    )


class _JsonEscapes(dict[int, str]):
    """By code point, found out once each."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = character if character.isprintable() else json.dumps(character)[1:-1]
        if code == _DELETE:  # which json takes for printable
            self[code] = "\\u007f"
        return self[code]


_DELETE = 0x7F
_JSON_ESCAPES = _JsonEscapes({ord(space): " " for space in "\n\r\t"})  # these stand outside of strings only
