"""JSON Schemas of packages, which check the configuration, input and output of exports.

A schema that compiles quickly is compiled here, once, and checks values that are small for its weight.
Everything else is done in a worker process (`vai/checks`).
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from plughost._util.json_schema.cost import BUDGET, LARGEST_AT_ONCE, too_costly
from plughost._util.json_schema.validation import Checker, LocatedProblem
from plughost._util.text import TruncatedText
from plughost.errors import InvalidSpec
from plughost.permissions.open_beneath import EscapesFolder, open_beneath

MAX_BYTES = 1 << 20
"""Bytes of a schema file."""


class CompiledSchema(msgspec.Struct, frozen=True, eq=False):
    """One schema of a package, with the sizes of values that may be checked on the event loop."""

    path: str
    text: bytes
    checker: Checker | None
    """None where even compiling the schema takes long."""
    at_once: int
    """Bytes, as JSON, of a value that may be checked on the event loop."""
    explained_at_once: int
    """Bytes of a value whose problems may be listed on the event loop."""

    def fits(self, value: Any) -> bool:
        """Whether a value of at most `at_once` bytes is valid."""
        assert self.checker is not None
        return self.checker.fits(value)

    def problems(self, value: Any) -> list[TruncatedText]:
        """The problems of a value of at most `told_at_once` bytes. They name fields and show no values,
        because they are recorded."""
        assert self.checker is not None
        return [] if self.checker.fits(value) else self.checker.problems(value)

    def located(self, value: Any) -> list[LocatedProblem]:
        """The problems of a value of at most `explained_at_once` bytes, each with its place."""
        assert self.checker is not None
        return [] if self.checker.fits(value) else self.checker.located(value)


class Schemas:
    """A cache of the schemas in use, by package folder and path."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, str], CompiledSchema] = {}

    def find(self, package: str, path: str | None) -> CompiledSchema | None:
        """The schema; None when `path` is None. InvalidSpec for a schema that cannot be used."""
        if path is None:
            return None
        schema = self._cache.get((package, path))
        if schema is None:
            schema = self._cache[package, path] = _load(package, path)
        return schema


def _load(package: str, path: str) -> CompiledSchema:
    folder = -1
    try:
        folder = os.open(package, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with open(open_beneath(folder, path), "rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        return _compile(path, text)
    except (OSError, ValueError, RecursionError, EscapesFolder) as error:
        raise InvalidSpec(f"its schema {path} cannot be used: {error}") from error
    finally:
        if folder >= 0:
            os.close(folder)


def _compile(path: str, text: bytes) -> CompiledSchema:
    if len(text) > LARGEST_AT_ONCE:
        return CompiledSchema(path, text, None, -1, -1)
    document = msgspec.json.decode(text)
    if too_costly(document) is not None:
        return CompiledSchema(path, text, None, -1, -1)
    checker = Checker(document, mask="the value")
    at_once = min(BUDGET // checker.weight, LARGEST_AT_ONCE)
    return CompiledSchema(path, text, checker, at_once, BUDGET // checker.told_weight)
