"""Files that people write, checked whole: every problem at once, each with its file, line and field.

msgspec stops at the first error and knows no lines. Here each field of a struct is converted on its
own, so that one mistake does not hide the next, and the place of every key is found in the text.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from plughost.base.errors import InvalidConfig

T = TypeVar("T")
Field = tuple[str | int, ...]
LARGEST = 1 << 20


class Problem(msgspec.Struct, frozen=True):
    """One thing to mend in one file."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


class Document:
    """The data of a file, where each key stands in it, and the problems found so far."""

    def __init__(self, file: str, data: dict[str, Any], lines: Mapping[Field, int]) -> None:
        self.file = file
        self.data = data
        self.problems: list[Problem] = []
        self._lines = lines

    def line(self, field: Field) -> int:
        """The line of a field, or of the nearest thing around it that has one."""
        while field:
            if field in self._lines:
                return self._lines[field]
            field = field[:-1]
        return 0

    def problem(self, field: Field, message: str, line: int | None = None) -> None:
        self.problems.append(self.lint(field, message, line))

    def lint(self, field: Field, message: str, line: int | None = None) -> Problem:
        """Something that is no problem of this document, but should be better."""
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in field).lstrip(".")
        return Problem(self.file, self.line(field) if line is None else line, name, message)

    def set_aside_unknown(self, kind: type[msgspec.Struct], data: Any, field: Field = ()) -> list[Problem]:
        """Keys of a later revision, or misspelt: out of the way, and told."""
        if not isinstance(data, dict):
            return []
        lints: list[Problem] = []
        sections = {info.encode_name: info.type for info in msgspec.structs.fields(kind)}
        for name in [*data]:
            if name not in sections:
                lints.append(self.lint((*field, name), "unknown key, ignored"))
                del data[name]
            elif isinstance(sections[name], type) and issubclass(sections[name], msgspec.Struct):
                lints += self.set_aside_unknown(sections[name], data[name], (*field, name))
        return lints

    def check(self) -> None:
        """Raise everything found, in the order of the file."""
        if self.problems:
            self.problems.sort(key=lambda problem: problem.line)
            raise InvalidConfig(self.problems)

    def read(self, kind: type[T], field: Field, data: Any) -> T | None:
        """`data` as a `kind` struct; None with its problems noted when it is not one."""
        found = len(self.problems)
        values = self._fields(kind, field, data)
        return None if len(self.problems) > found or values is None else kind(**values)

    def _fields(self, kind: type[Any], field: Field, data: Any) -> dict[str, Any] | None:
        if not isinstance(data, dict):
            self.problem(field, f"expected a table, got {_kind_of(data)}")
            return None
        hints = get_type_hints(kind, include_extras=True)
        values: dict[str, Any] = {}
        for info in msgspec.structs.fields(kind):
            name = info.encode_name
            if name in data:
                values[info.name] = self._value(hints[info.name], (*field, name), data[name])
            elif info.required:
                self.problem(field, f"`{name}` is missing; expected {_expectation(hints[info.name])}")
        known = {info.encode_name for info in msgspec.structs.fields(kind)}
        for name in data.keys() - known:
            self.problem((*field, name), f"unknown key; known here: {', '.join(sorted(known))}")
        return values

    def _value(self, hint: Any, field: Field, data: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.read(hint, field, data)
        if get_origin(hint) is list and isinstance(data, list):
            inner = get_args(hint)[0]
            return [self._value(inner, (*field, number), value) for number, value in enumerate(data)]
        if get_origin(hint) is dict and isinstance(data, dict):
            inner = get_args(hint)[1]
            return {key: self._value(inner, (*field, key), value) for key, value in data.items()}
        try:
            return msgspec.convert(data, hint)
        except msgspec.ValidationError as error:
            self.problem(field, _plain(str(error)))
            return None


def expand(text: str, variables: Mapping[str, str], missing: Callable[[str], None]) -> str:
    """`${NAME}` replaced by its value; a name without one is told to `missing`."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            missing(name)
        return variables.get(name, "")

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


def load_toml(path: Path) -> Document:
    """Read a TOML file; a file that cannot be read or parsed is one located problem."""
    import tomllib

    text = read_text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise InvalidConfig([Problem(str(path), int(place[1]) if place else 0, "", message)]) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
        raise InvalidConfig([Problem(str(path), 0, "", str(error))]) from error
    return Document(str(path), data, _toml_lines(text))


def read_text(path: Path, largest: int = LARGEST) -> str:
    """A regular file of reasonable size; what it is not is one problem."""
    try:
        return _read(path, largest).decode()
    except OSError as error:
        raise InvalidConfig([Problem(str(path), 0, "", error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise InvalidConfig([Problem(str(path), 0, "", "not valid UTF-8")]) from error


def _read(path: Path, largest: int) -> bytes:
    """Only a regular file: a FIFO would be waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        text = file.read(largest + 1)
    if len(text) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest} bytes")
    return text


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
            table = _split(header[2])
            if header[1] == "[[":
                arrays[table] = arrays.get(table, -1) + 1
                table = (*table, arrays[table])
            lines.setdefault(table, number)
            position = header.end()
        elif pair := _PAIR.match(text, position):
            key = (*table, *_split(pair[1]))
            lines.setdefault(key, number)
            position = pair.end()
        position, crossed = _skip_value(text, position)
        number += crossed
    return lines


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


def _kind_of(value: Any) -> str:
    names = {
        dict: "a table",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "an integer",
        float: "a float",
    }
    return names.get(type(value), type(value).__name__)


def _expectation(hint: Any) -> str:
    try:
        msgspec.convert(object(), hint)
    except msgspec.ValidationError as error:
        found = re.match(r"Expected `([^`]+)`", str(error))
        return found[1] if found else str(hint)
    return "a value"


def _plain(message: str) -> str:
    return message.replace("Expected", "expected", 1).replace("Invalid", "invalid", 1)
