"""TOML with the line of every key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plughost.base.errors import InvalidConfig
from plughost.base.located import INTEGERS, Document, Field, Problem, read_text

MOST_KEY_PARTS = 32
"""Parts of a dotted key, as in `a.b.c = 1` or `[a.b.c]`. The parser's time grows with their square."""


def load_toml(path: Path) -> Document:
    """Read a TOML file; a file that cannot be read or parsed is one located problem."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, name: str) -> Document:
    """TOML that came from a file called `name`; text that cannot be parsed is one located problem."""
    import tomllib

    if line := _line_of_a_long_key(text):
        message = f"a key of more than {MOST_KEY_PARTS} parts joined by dots; write shorter keys"
        raise InvalidConfig([Problem(name, line, "", message)])
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise InvalidConfig([Problem(name, int(place[1]) if place else 0, "", message)]) from error
    except RecursionError as error:  # thousands of brackets
        raise InvalidConfig([Problem(name, 0, "", str(error))]) from error
    except ValueError as error:  # a number of thousands of digits
        digits = _MANY_DIGITS.search(text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 0
        raise InvalidConfig([Problem(name, line, "", _TOO_LARGE if digits else str(error))]) from error
    document = Document(name, data, _toml_lines(text))
    for field in _large_integers(data):
        document.problem(field, _TOO_LARGE)
    document.check()
    return document


_TOO_LARGE = "an integer of more than 64 bits"
_MANY_DIGITS = re.compile(r"[0-9](?:_?[0-9]){999}")


def _large_integers(data: dict[str, Any]) -> Iterator[Field]:
    """Where there is one. A hexadecimal one may have any number of digits."""
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
_SKIP = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|\n|.',
    re.S,
)


def _toml_lines(text: str) -> dict[Field, int]:
    """Where each key stands. The text is known to be valid TOML, so a light scan is enough."""
    lines: dict[Field, int] = {}
    arrays: dict[Field, int] = {}
    table: Field = ()
    position = 0
    number = 1
    while position < len(text):
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
    while position < len(text) and (token := _SKIP.match(text, position)):
        position = token.end()
        piece = token[0]
        crossed += piece.count("\n")
        if piece in "[{":
            depth += 1
        elif piece in "]}":
            depth -= 1
        elif piece == "\n" and depth <= 0:
            break
    return position, crossed


def _split(dotted: str) -> Field:
    return tuple(_unquoted(part) for part in re.findall(_KEY, dotted))


def _unquoted(part: str) -> str:
    if "\\" in part:  # escapes are the parser's business
        import tomllib

        return next(iter(tomllib.loads(f"{part} = 0")))
    return part[1:-1] if part[0] in "\"'" else part
