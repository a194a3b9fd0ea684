"""Migrations: numbered SQL files in a folder per dialect, each executed once in a database.

A migration never changes after its release: a later one changes what it made.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from plughost.errors import HostFailed
from plughost.vai.database.statements import Dialect

_NAME = re.compile(r"(\d{4})_\w+\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema: its number, and the statements that make it from the one before."""

    number: int
    statements: tuple[str, ...]


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All migrations of a dialect, in order."""
    folder = Path(__file__).with_name(dialect)
    found = [
        Migration(int(match[1]), split_statements(file.read_text(encoding="utf-8")))
        for file in folder.iterdir()
        if (match := _NAME.fullmatch(file.name))
    ]
    found.sort(key=lambda each: each.number)
    assert [each.number for each in found] == [*range(1, len(found) + 1)], (
        "migrations have consecutive numbers"
    )
    return tuple(found)


def pending(dialect: Dialect, version: int, where: str) -> tuple[Migration, ...]:
    """The migrations that a database of that version lacks. HostFailed for one of a newer plughost."""
    known = migrations(dialect)
    if version > len(known):
        raise HostFailed(
            f"{where} was written by a newer plughost: its version is {version}, and this plughost supports "
            f"{len(known)}",
            hint="use the newer plughost; the database was not changed",
        )
    return known[version:]


def split_statements(source: str) -> tuple[str, ...]:
    """The statements of a migration; each ends with a semicolon at the end of a line."""
    code = re.sub(r"--.*$", "", source, flags=re.MULTILINE)
    return tuple(part.strip() for part in re.split(r";\s*$", code, flags=re.MULTILINE) if part.strip())
