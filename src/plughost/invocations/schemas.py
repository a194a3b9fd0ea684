"""A package's JSON Schemas: they check what an export is given and what it returns.

A schema that is compiled quickly is compiled here, once, and checks values that are small for its weight.
All else is for a worker process (`checks.py`).
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.base.json_schema import Checker
from plughost.base.schema_cost import BUDGET, LARGEST_AT_ONCE, too_costly
from plughost.base.text import Head
from plughost.guard.beneath import Escapes, open_beneath

LARGEST = 1 << 20


class Schema(msgspec.Struct, frozen=True, eq=False):
    path: str
    text: bytes
    checker: Checker | None
    """None where even to compile it takes long."""
    at_once: int
    """Bytes, as JSON, of a value that may be checked on the event loop."""
    told_at_once: int
    """And of one whose problems may be told there."""

    def fits(self, value: Any) -> bool:
        """Whether a value is as the schema wants it; only for one of at most `at_once` bytes."""
        assert self.checker is not None
        return self.checker.fits(value)

    def problems(self, value: Any) -> list[Head]:
        """What is wrong with a value of at most `told_at_once` bytes, by name and not by value: it goes into
        records."""
        assert self.checker is not None
        return [] if self.checker.fits(value) else self.checker.problems(value)


class Schemas:
    """Of the packages in use, by their folder and the schema's path in it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Schema] = {}

    def find(self, package: str, path: str | None) -> Schema | None:
        """InvalidSpec for a schema that cannot be used; None where there is none."""
        if path is None:
            return None
        schema = self._known.get((package, path))
        if schema is None:
            schema = self._known[package, path] = _read(package, path)
        return schema


def _read(package: str, path: str) -> Schema:
    folder = -1
    try:
        folder = os.open(package, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with open(open_beneath(folder, path), "rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        return _made(path, text)
    except (OSError, ValueError, RecursionError, Escapes) as error:
        raise InvalidSpec(f"its schema {path} cannot be used: {error}") from error
    finally:
        if folder >= 0:
            os.close(folder)


def _made(path: str, text: bytes) -> Schema:
    if len(text) > LARGEST_AT_ONCE:
        return Schema(path, text, None, -1, -1)
    document = msgspec.json.decode(text)
    if too_costly(document) is not None:
        return Schema(path, text, None, -1, -1)
    checker = Checker(document, mask="the value")
    at_once = min(BUDGET // checker.weight, LARGEST_AT_ONCE)
    return Schema(path, text, checker, at_once, BUDGET // checker.told_weight)
