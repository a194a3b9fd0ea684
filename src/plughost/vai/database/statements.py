"""Named SQL statements: one source each, in `.sql` files beside the module that uses them.

A file holds statements, each under a comment that names it:

    -- find: the run of that id
    SELECT * FROM runs WHERE run_id = :run_id;

The source is written for PostgreSQL, with `:name` for parameters, and translated for SQLite. A statement that
cannot be translated has a variant for each: `-- find (sqlite): …` and `-- find (postgresql): …`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

Dialect: TypeAlias = Literal["sqlite", "postgresql"]

_HEADER = re.compile(r"^-- (\w+)(?: \((sqlite|postgresql)\))?: ", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$\n?", re.MULTILINE)
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|::|:(\w+)")
"""A comment, a quoted text, a cast, or a parameter."""
_RETURNS_ROWS = re.compile(
    r"^(SELECT|WITH\b(?!.*\b(INSERT|UPDATE|DELETE)\b)|PRAGMA)|\bRETURNING\b", re.IGNORECASE | re.DOTALL
)
_FOR_SQLITE = (
    (re.compile(r"\s+FOR UPDATE( SKIP LOCKED)?\b"), ""),  # a writer of SQLite locks the whole file
    (re.compile(r"= ANY\((:\w+)\)"), r"IN (SELECT value FROM json_each(\1))"),
    (re.compile(r"\boctet_length\((\w+)\)"), r"length(CAST(\1 AS BLOB))"),
)


class Row(Protocol):
    """A row of a result; `dict(row)` works, too."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Result(msgspec.Struct, frozen=True):
    """The result of a statement: its rows, and how many rows it changed or returned."""

    rows: Sequence[Row] = ()
    changed: int = 0

    def first(self) -> Row | None:
        """The first row; None when there is none."""
        return self.rows[0] if self.rows else None

    def value(self) -> Any:
        """The only value of the first row."""
        row = self.rows[0]
        return row[next(iter(row.keys()))]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A named statement in both dialects. Calling it with its parameters gives a `Query`."""

    name: str
    sqlite: str
    """With `:name` parameters, which SQLite understands."""
    postgresql: str
    """With numbered parameters."""
    parameters: tuple[str, ...]
    """Names of the numbered parameters, in order."""
    returns_rows: bool

    def __call__(self, **values: Any) -> Query:
        return Query(self, _storable(values))

    def each(self, rows: Iterable[Mapping[str, Any]]) -> Batch:
        """Executes the statement once for each set of parameters; the result has the rows of all."""
        return Batch(self, [_storable(row) for row in rows])

    def text(self, dialect: Dialect) -> str:
        """The statement in a dialect."""
        return self.sqlite if dialect == "sqlite" else self.postgresql

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of the numbered parameters."""
        return [values[name] for name in self.parameters]


class Query(msgspec.Struct, frozen=True):
    """A statement with its parameters, to be executed."""

    statement: Statement
    values: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Query {self.statement.name}>"  # values may be anything, secrets included


class Batch(msgspec.Struct, frozen=True):
    """A statement to be executed with many sets of parameters."""

    statement: Statement
    values: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<Batch {self.statement.name} × {len(self.values)}>"


def _storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """PostgreSQL cannot store NUL characters in texts, so both databases get a replacement character."""
    return {
        name: value.replace("\0", "\ufffd") if type(value) is str and "\0" in value else value
        for name, value in values.items()
    }


def load_statements(module_file: str) -> dict[str, Statement]:
    """The statements of a module, by name, from the `.sql` file beside it."""
    with open(os.path.splitext(module_file)[0] + ".sql", encoding="utf-8") as file:
        return parse_statements(file.read())


def parse_statements(source: str) -> dict[str, Statement]:
    """The statements in the text of a `.sql` file, by name."""
    _, *parts = _HEADER.split(source)
    variants: dict[str, dict[str | None, str]] = {}
    for name, dialect, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        text = _COMMENT.sub("", body.partition("\n")[2]).strip().removesuffix(";")
        found = variants.setdefault(name, {})
        if dialect in found or not text:
            raise ValueError(f"the statement {name} is empty or occurs twice")
        found[dialect] = text
    for name, texts in variants.items():
        if texts.keys() not in ({None}, {"sqlite", "postgresql"}):
            raise ValueError(f"the statement {name} needs one source, or a variant for each database")
    return {name: statement(name, texts) for name, texts in variants.items()}


def statement(name: str, texts: Mapping[str | None, str]) -> Statement:
    """A statement from its source, or from its variants by dialect."""
    source = texts.get("postgresql") or texts[None]
    numbered, parameters = _numbered(source)
    return Statement(
        name=name,
        sqlite=texts.get("sqlite") or _for_sqlite(source),
        postgresql=numbered,
        parameters=parameters,
        returns_rows=_RETURNS_ROWS.search(source) is not None,
    )


def _for_sqlite(source: str) -> str:
    for pattern, replacement in _FOR_SQLITE:
        source = pattern.sub(replacement, source)
    return source


def _numbered(source: str) -> tuple[str, tuple[str, ...]]:
    """The source with `$1`, `$2` … for its parameters, and their names."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _TOKEN.sub(number, source), tuple(names)
