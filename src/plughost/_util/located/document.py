"""Document: a configuration file checked as a whole. It reports all problems, each with file, line and field.

msgspec stops at the first error and knows no lines. Here each field of a struct is converted on its
own, so that one mistake does not hide the next, and the place of every key is found in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from plughost._util.nearest import did_you_mean
from plughost._util.text import escape_controls
from plughost._util.untrusted_file import read_authors, read_regular
from plughost.errors import InvalidConfig

T = TypeVar("T")
Field = tuple[str | int, ...]
LARGEST = 1 << 20
MOST_SUGGESTIONS = 100
"""Problems after which the nearest known key is not looked for any more: that takes long."""
INTEGERS = range(-(1 << 63), 1 << 64)
"""Those that a file may hold: of 64 bits. Python cannot even show one of thousands of digits."""


class LocatedProblem(msgspec.Struct, frozen=True):
    """A problem in a file, with its line and field."""

    file: str
    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"
        return escape_controls(text)  # the file may be a stranger's, and so are the names of its keys


class Document:
    """The data of a file, the line of each key, and the problems found so far."""

    def __init__(self, file: str, data: dict[str, Any], lines: Mapping[Field, int]) -> None:
        self.file = file
        self.data = data
        self._lines = lines
        self._found: list[tuple[Field, LocatedProblem]] = []

    @functools.cached_property
    def _tables(self) -> dict[Field, int]:
        """The first line of what is written only by what is in it: `allow` in `allow.read = …`.

        Lines are in the order of the file, so that what is known already is so with everything around it.
        """
        first: dict[Field, int] = {}
        for field, line in self._lines.items():
            while (field := field[:-1]) and field not in first:
                first[field] = line
        return first

    @property
    def problems(self) -> list[LocatedProblem]:
        return [problem for _, problem in self._found]

    def is_sound(self, field: Field) -> bool:
        """Whether no problem was found at `field` or below it."""
        return not any(found[: len(field)] == field for found, _ in self._found)

    def line(self, field: Field) -> int:
        """The line of a field, of the first thing in it, or of the nearest thing around it that has one."""
        while field:
            if field in self._lines:
                return self._lines[field]
            if field in self._tables:
                return self._tables[field]
            field = field[:-1]
        return 0

    def problem(self, field: Field, message: str, line: int | None = None) -> None:
        """Add a problem at a field."""
        self._found.append((field, self.lint(field, message, line)))

    def lint(self, field: Field, message: str, line: int | None = None) -> LocatedProblem:
        """A lint: something that is accepted, but should be better."""
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in field).lstrip(".")
        return LocatedProblem(self.file, self.line(field) if line is None else line, name, message)

    def set_aside_unknown(self, kind: type[msgspec.Struct], data: Any) -> list[LocatedProblem]:
        """Remove unknown keys (of a later revision, or misspelt) and optional keys without a value, with all
        their problems; returns a lint for each."""
        lints: list[LocatedProblem] = []
        aside: set[Field] = set()
        for field, why in self._needless(kind, data, ()):
            lints.append(self.lint(field, f"{why}, ignored"))
            aside.add(field)
        self._found = [
            (field, problem)
            for field, problem in self._found
            if not any(field[:end] in aside for end in range(1, len(field) + 1))
        ]
        return lints

    def _needless(self, kind: Any, data: Any, field: Field) -> Iterator[tuple[Field, str]]:
        """Remove the keys that `kind` does not have; yields where they were."""
        if get_origin(kind) is list and isinstance(data, list):
            for number, each in enumerate(data):
                yield from self._needless(get_args(kind)[0], each, (*field, number))
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(data, dict)):
            return
        known = {info.encode_name: info for info in _members(kind)}
        for name, value in [*data.items()]:
            place = (*field, name)
            if name in known and (value is not None or known[name].required):
                yield from self._needless(known[name].type, value, place)
            else:
                yield place, "has no value" if name in known else "unknown key"
                del data[name]

    def check(self) -> None:
        """Raise InvalidConfig with all problems, in the order of the file."""
        if self._found:
            raise InvalidConfig(sorted(self.problems, key=lambda problem: problem.line))

    def read(self, kind: type[T], field: Field, data: Any, also: Iterable[str] = ()) -> T | None:
        """Convert `data` to the struct `kind`; None, with the problems added, when that is not possible.
        `also` are keys that are read elsewhere, and that an unknown one may be a misspelling of."""
        found = len(self._found)
        values = self._fields(kind, field, data, also)
        return None if len(self._found) > found or values is None else kind(**values)

    def _fields(self, kind: Any, field: Field, data: Any, also: Iterable[str] = ()) -> dict[str, Any] | None:
        if not isinstance(data, dict):
            self.problem(field, f"expected a table, got {_kind_of(data)}")
            return None
        members = _members(kind)
        values: dict[str, Any] = {}
        for info in members:
            name = info.encode_name
            if name in data:
                values[info.name] = self._value(info.type, (*field, name), data[name])
            elif info.required:
                self.problem(field, f"`{name}` is missing; expected {_expectation(info.type)}")
        known = {info.encode_name for info in members}
        for name in data.keys() - known:
            self.unknown_key((*field, name), {*known, *also})
        return values

    def unknown_key(self, field: Field, known: Iterable[str]) -> None:
        """Add the problem that a key is unknown; it names the nearest of the known ones."""
        is_one_of_few = len(self._found) < MOST_SUGGESTIONS
        suggestion = did_you_mean(str(field[-1]), known) if is_one_of_few else ""
        self.problem(field, f"unknown key{suggestion}")

    def _value(self, hint: Any, field: Field, data: Any) -> Any:
        hint = _unless_none(_unmarked(hint), data)
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
            wanted = _expectation(hint) if get_origin(hint) is Literal else None
            self.problem(field, f"expected {wanted}, got {data!r:.200}" if wanted else _plain(str(error)))
            return None


def expand(text: str, variables: Mapping[str, str], missing: Callable[[str], None]) -> str:
    """Replace `${NAME}` by its value; `missing` is called for a name without one."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in variables:
            missing(name)
        return variables.get(name, "")

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", value, text)


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Read a regular file of limited size as text; raises InvalidConfig."""
    return _text(path, largest, read_regular)


def read_authors_text(path: Path, largest: int) -> str:
    """Read a text file that came with a plugin, in a folder given by its real path. A link does not lead to
    private files outside of that folder."""
    return _text(path, largest, read_authors)


def _text(path: Path, largest: int, read: Callable[[Path, int], bytes]) -> str:
    try:
        data = read(path, largest)
    except OSError as error:
        raise InvalidConfig([LocatedProblem(str(path), 0, "", error.strerror or str(error))]) from error
    return as_text(data, str(path))


def as_text(data: bytes, name: str) -> str:
    """Decode the bytes of a file called `name`; raises InvalidConfig when they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidConfig([LocatedProblem(name, 0, "", "not valid UTF-8")]) from error


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


@functools.cache
def _members(kind: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


@functools.cache
def _unmarked(hint: Any) -> Any:
    """A type without marks that say nothing about its values, so that each item is reported by itself."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *marks = get_args(hint)
    return inner if all(mark == msgspec.Meta(extra=mark.extra) for mark in marks) else hint


def _unless_none(hint: Any, data: Any) -> Any:
    """What `T | None` means for a value that is there: T."""
    if data is None or get_origin(hint) not in (Union, UnionType):
        return hint
    others = [each for each in get_args(hint) if each is not type(None)]
    return others[0] if len(others) == 1 else hint


def _expectation(hint: Any) -> str:
    if get_origin(hint) is Literal:
        values = [str(value) for value in get_args(hint)]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "a table"
    try:
        msgspec.convert(object(), hint)
    except msgspec.ValidationError as error:
        found = re.match(r"Expected `([^`]+)`", str(error))
        return found[1] if found else str(hint)
    return "a value"


def _plain(message: str) -> str:
    return message.replace("Expected", "expected", 1).replace("Invalid", "invalid", 1)
