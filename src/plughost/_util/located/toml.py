"""Reads TOML files as documents that know the line of every key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plughost._util.located.document import (
    INTEGERS,
    Document,
    Field,
    LocatedProblem,
    read_authors_text,
    read_text,
)
from plughost.errors import InvalidConfig

MOST_KEY_PARTS = 32
"""Parts of a dotted key, as in `a.b.c = 1` or `[a.b.c]`. The parser's time grows with their square."""


LARGEST_OF_AUTHORS = 64 << 10
MOST_MARKS = 10_000
"""Commas, dots, brackets, equals signs and lines in an author's file: no fewer than its keys and values.
Reading the worst such file takes about 50 ms."""


def load_toml(path: Path, name: str | None = None) -> Document:
    """Read an operator's TOML file, called `name` in messages; a file that cannot be read or parsed is one
    located problem."""
    return _parse(read_text(path), name or str(path))


def load_authors_toml(path: Path, name: str | None = None) -> Document:
    """Read a TOML file that came with a plugin, which is untrusted, in a folder given by its real path. Its
    size is limited, so that it is read quickly, and it does not lead to private files elsewhere."""
    return parse_authors_toml(read_authors_text(path, LARGEST_OF_AUTHORS), name or str(path))


def parse_authors_toml(text: str, name: str) -> Document:
    """Parse TOML of a plugin author's file called `name`."""
    if sum(map(text.count, ",.[{=\n")) > MOST_MARKS:
        message = f"more than {MOST_MARKS} commas, dots, brackets, equals signs and lines; shorten the file"
        raise InvalidConfig([LocatedProblem(name, 0, "", message)])
    return _parse(text, name)


def _parse(text: str, name: str) -> Document:
    import tomllib

    if line := _line_of_a_long_key(text):
        message = f"a key of more than {MOST_KEY_PARTS} parts joined by dots; write shorter keys"
        raise InvalidConfig([LocatedProblem(name, line, "", message)])
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise InvalidConfig([LocatedProblem(name, int(place[1]) if place else 0, "", message)]) from error
    except RecursionError as error:  # thousands of brackets
        raise InvalidConfig([LocatedProblem(name, 0, "", str(error))]) from error
    except ValueError as error:  # a number of thousands of digits
        digits = _MANY_DIGITS.search(text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 0
        raise InvalidConfig([LocatedProblem(name, line, "", _TOO_LARGE if digits else str(error))]) from error
    document = Document(name, data, _toml_lines(text))
    for field in _large_integers(data):
        document.problem(field, _TOO_LARGE)
    document.check()
    return document


_TOO_LARGE = "an integer of more than 64 bits"
_MANY_DIGITS = re.compile(r"[0-9](?:_?[0-9]){999}")


def _large_integers(data: dict[str, Any]) -> Iterator[Field]:
    """The fields with integers of more than 64 bits. A hexadecimal one may have any number of digits."""
    left: list[tuple[Field, Any]] = [((), data)]
    while left:
        field, value = left.pop()
        if isinstance(value, dict):
            left += [((*field, name), each) for name, each in value.items()]
        elif isinstance(value, list):
            left += [((*field, number), each) for number, each in enumerate(value)]
        elif isinstance(value, int) and value not in INTEGERS:
            yield field


_SCAN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*'
    r"|(?P<dot>\.)|(?P<other>[=,\[\]{}\n]+)|(?P<open>[\"\'])|[^\"\'#.=,\[\]{}\n]+",
    re.S,
)
"""Strings and comments whole, dots, whatever ends a key, a quote that nothing closes, and the rest."""


def _line_of_a_long_key(text: str) -> int:
    """The line of the first key with too many parts, found without parsing; 0 if there is none.

    Counts dots outside of strings and comments with nothing between them that ends a key, so that no key is
    longer than what is counted. A quote that nothing closes ends the scan: the parser gets no further.
    """
    if text.count(".") < MOST_KEY_PARTS:
        return 0
    dots = 0
    for token in _SCAN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
            if dots >= MOST_KEY_PARTS:
                return text.count("\n", 0, token.start()) + 1
        elif kind == "other":
            dots = 0
        elif kind == "open":
            return 0
    return 0


_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_PAIR = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)++")
_TOKEN = re.compile(
    r'[^\[\]{}"\'#\n]+|[\[{]|[\]}]|\n'
    r'|"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|.',
    re.S,
)
"""A stretch without any of the others, a bracket, the end of a line, a string or a comment."""


def _toml_lines(text: str) -> dict[Field, int]:
    """The line of each key. The text is known to be valid TOML, so a light scan is enough."""
    lines: dict[Field, int] = {}
    arrays: dict[Field, int] = {}
    table: Field = ()
    position = 0
    number = 1
    while position < len(text):
        if blank := _BLANK.match(text, position):
            number += text.count("\n", position, blank.end())
            position = blank.end()
        if header := _HEADER.match(text, position):
            table = _in_arrays(_split(header[2]), arrays, header[1] == "[[")
            lines.setdefault(table, number)
            position = header.end()
        elif pair := _PAIR.match(text, position):
            key = (*table, *_split(pair[1]))
            lines.setdefault(key, number)
            position = pair.end()
        position, crossed = _skip_value(text, position)
        number += crossed
    return lines


def _in_arrays(dotted: Field, arrays: dict[Field, int], opens_item: bool) -> Field:
    """The table that a header opens: of an array it names, that is the last item so far."""
    table: Field = ()
    for number, part in enumerate(dotted, start=1):
        table = (*table, part)
        if opens_item and number == len(dotted):
            arrays[table] = arrays.get(table, -1) + 1
        if table in arrays:
            table = (*table, arrays[table])
    return table


def _skip_value(text: str, position: int) -> tuple[int, int]:
    """Past the value and its line's end, over strings, comments and nested brackets."""
    depth = crossed = 0
    for token in _TOKEN.finditer(text, position):
        piece = token[0]
        if piece == "\n":
            crossed += 1
            if depth <= 0:
                return token.end(), crossed
        elif piece in _OPENING:
            depth += 1
        elif piece in _CLOSING:
            depth -= 1
        elif piece[0] in _QUOTES:
            crossed += piece.count("\n")
    return len(text), crossed


_OPENING, _CLOSING, _QUOTES = ("[", "{"), ("]", "}"), ('"', "'")


def _split(dotted: str) -> Field:
    if '"' in dotted or "'" in dotted:
        return tuple(_unquoted(part) for part in re.findall(_KEY, dotted))
    return tuple(part.strip() for part in dotted.split("."))


def _unquoted(part: str) -> str:
    text = part[1:-1] if part[0] in _QUOTES else part
    return _ESCAPE.sub(_unescaped, text) if part[0] == '"' and "\\" in text else text


_ESCAPE = re.compile(r"\\(?:u(.{4})|U(.{8})|x(..)|(.))")
_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else _SHORT.get(escape[4], escape[4])
