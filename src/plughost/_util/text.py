"""Safe text: makes text of plugins fit to be shown. Escapes control characters, and truncates long text."""

from __future__ import annotations

import codecs
import json
from typing import Any

import msgspec

_CONTINUED = bytes(range(0x80, 0xC0))
_decoder = codecs.getincrementaldecoder("utf-8")


MAX_VALUE = 200
"""Limit in characters of a value in a message."""


def truncate(value: object) -> str:
    """A value for a message: all of it, or only its length. In a part of it, a secret could not be
    recognised."""
    shown = repr(value)
    return shown if len(shown) <= MAX_VALUE else f"something of {len(shown)} characters"


MAX_ERROR_TEXT = 16 << 10
"""Limit in characters of a plugin's own error message: it is searched for secrets on the event loop."""


def bounded(text: str, longest: int = MAX_ERROR_TEXT) -> str:
    """A plugin's own text for an error message: all of it, or only its length."""
    return text if len(text) <= longest else f"something of {len(text)} characters"


class TruncatedText(msgspec.Struct, frozen=True):
    """A text, or its beginning. Only `Redactor.redact_truncated` makes it fit to be shown: at the cut, a part
    of a secret may be left, which no longer looks like the secret."""

    unhidden: str
    is_cut: bool = False

    def __repr__(self) -> str:
        return f"<Head: {len(self.unhidden)} characters>"

    __str__ = __repr__


def head(text: str, longest: int) -> TruncatedText:
    """The first `longest` characters of a text."""
    return TruncatedText(text[:longest], len(text) > longest)


def head_of_bytes(text: bytes | bytearray, longest: int) -> TruncatedText:
    """The beginning of bytes as text, without half of a character at the cut. Bytes that are not UTF-8 are
    shown as escapes."""
    if len(text) <= longest:
        return TruncatedText(bytes(text).decode(errors="backslashreplace"))
    return TruncatedText(_decoder("backslashreplace").decode(bytes(text[:longest])), is_cut=True)


def excerpt(data: bytes) -> str:
    """Bytes from the middle of a text as text, without halves of characters at both ends."""
    return _decoder("backslashreplace").decode(data.lstrip(_CONTINUED))


def escape_controls(text: str) -> str:
    """The text on one line, safe for a terminal: control characters, text directions and everything else that
    is not printable are escaped."""
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


def escape_json_controls(document: bytes) -> bytes:
    """The same JSON document on one line, with all characters that are not printable escaped."""
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
    """Escapes by code point, computed once each."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = character if character.isprintable() else json.dumps(character)[1:-1]
        if code == _DELETE:  # json does not escape DEL
            self[code] = "\\u007f"
        return self[code]


_DELETE = 0x7F
_JSON_ESCAPES = _JsonEscapes({ord(space): " " for space in "\n\r\t"})  # these occur outside of strings only
