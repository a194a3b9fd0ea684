r"""Undoes escapes of JSON, URLs, HTML and Python, and keeps track of the position of each character.

One pass undoes `\u0026`, `\u{26}`, `\/`, `\&`, `\x26`, `\046`, `%26`, `%C3%BC`, `%u0026`, `&amp;`, `&#38;`
and the like, each of which becomes one character. What was escaped twice takes two passes. A text may come in
slices: wherever it is cut, the characters and their places are those of the whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from html.entities import html5

LONGEST_ESCAPE = 34
"""Characters of an HTML entity with the longest name."""
_HEX = "[0-9a-fA-F]"
_NEXT = f"%[89abAB]{_HEX}"
TRIGGER = re.compile(r"[\\%&]")
_ESCAPE = re.compile(
    rf"\\u([dD][89abAB]{_HEX}{{2}})\\u([dD][c-fC-F]{_HEX}{{2}})"
    rf"|[\\%]u({_HEX}{{4}})"
    rf"|\\U({_HEX}{{8}})"
    rf"|\\x({_HEX}{{2}})"
    r"|\\([^0-9A-Za-z]|[bfnrtv])"
    rf"|(%[0-7]{_HEX}|%[cdCD]{_HEX}{_NEXT}|%[eE]{_HEX}(?:{_NEXT}){{2}}|%[fF][0-7](?:{_NEXT}){{3}})"
    r"|&#(\d{1,7});|&#[xX]([0-9a-fA-F]{1,6});|&([a-zA-Z][a-zA-Z0-9]{1,31});"
    rf"|\\u\{{({_HEX}{{1,6}})\}}"
    r"|\\([0-3][0-7]{2})",
    re.S,
)
KEPT = 4
"""Characters of an escape that is remembered: in ASCII there are a few thousand, as `%26`, `\\x26`, `\\n`."""
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NAMES = {name[:-1]: each for name, each in html5.items() if name[-1] == ";" and len(each) == 1}


_known: dict[str, str] = {}
"""Escapes of one byte, which are few: to look at each takes long where a text is full of them."""


def _character(escape: re.Match[str]) -> str | None:
    """The one character that an escape stands for; None when it is none after all."""
    text = escape[0]
    character = _known.get(text)
    if character is None:
        character = _read(escape)
        if character is not None and len(text) <= KEPT and text.isascii():
            _known[text] = character
    return character


def _read(escape: re.Match[str]) -> str | None:
    group = escape.lastindex
    body = escape[group] if group else ""
    if group == 2:
        high, low = int(escape[1], 16), int(body, 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if group == 6:
        return _LETTERS.get(body, body)
    if group == 7:
        try:
            return bytes.fromhex(body.replace("%", "")).decode()
        except ValueError:
            return None
    if group == 10:
        return _NAMES.get(body) or _NAMES.get(body.lower())
    number = int(body, {8: 10, 12: 8}.get(group or 0, 16))
    return chr(number) if number < 0x110000 else None


class Unescaped:
    """One pass over a text that comes in slices. Positions are those since its beginning.

    `text` begins at `at`; what lies before has been dropped.
    """

    __slots__ = ("_next", "_rest", "_shift", "_tokens", "_where", "at", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self._rest = ""
        """Came, but an escape may begin there that has not come whole."""
        self._next = 0
        """Where the rest begins in the text below."""
        self._shift = 0
        """From here to there, before the first token."""
        self._where: list[int] = []
        self._tokens: list[tuple[int, int]] = []
        """Escapes: their positions here, and from where to where they reach there."""

    def begin(self, at: int) -> None:
        """Begin at a position of the text below instead of 0."""
        self._next = self._shift = at

    @property
    def changed(self) -> bool:
        """Whether there is an escape in what has not been dropped."""
        return bool(self._where) or TRIGGER.search(self._rest) is not None

    def feed(self, text: str, *, final: bool) -> str:
        """Take the next slice; returns what it added to `text`."""
        rest = self._rest + text
        sure = len(rest) if final else len(rest) - LONGEST_ESCAPE
        if sure <= 0:
            self._rest = rest
            return ""
        parts: list[str] = []
        done = 0
        end = self.at + len(self.text)
        known, where, tokens, base = _known.get, self._where, self._tokens, self._next
        for escape in _ESCAPE.finditer(rest) if TRIGGER.search(rest) else ():
            start, stop = escape.span()
            if start >= sure:
                break
            character = known(escape[0]) or _character(escape)
            if character is None:
                continue
            if start > done:
                parts.append(rest[done:start])
            end += start - done
            where.append(end)
            tokens.append((base + start, base + stop))
            parts.append(character)
            end += 1
            done = stop
        stop = max(sure, done)
        parts.append(rest[done:stop])
        self._rest = rest[stop:]
        self._next += stop
        added = "".join(parts)
        self.text += added
        return added

    def drop(self, at: int) -> None:
        """Drop the text before a position."""
        self.text = self.text[at - self.at :]
        self.at = at

    def forget(self, at: int) -> None:
        """Forget the original positions of everything before a position."""
        gone = bisect_right(self._where, at - 1)
        if gone:
            self._shift = self._tokens[gone - 1][1] - self._where[gone - 1] - 1
            del self._where[:gone], self._tokens[:gone]

    def start(self, at: int) -> int:
        """Where the character at a position begins in the text below."""
        number = bisect_right(self._where, at) - 1
        if number < 0:
            return at + self._shift
        here, (start, stop) = self._where[number], self._tokens[number]
        return start if here == at else stop + at - here - 1

    def stop(self, at: int) -> int:
        """Where the character before a position ends in the text below."""
        number = bisect_right(self._where, at - 1) - 1
        if number >= 0 and self._where[number] == at - 1:
            return self._tokens[number][1]
        return self.start(at - 1) + 1


def unescape(text: str) -> str:
    """A text with its escapes undone, in one pass."""
    return _ESCAPE.sub(_replacement, text)


def _replacement(escape: re.Match[str]) -> str:
    return _known.get(escape[0]) or _character(escape) or escape[0]
