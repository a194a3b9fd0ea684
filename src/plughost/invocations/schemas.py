"""A package's JSON Schemas, compiled once: they check what an export is given and what it returns."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.base.json_schema import Checker
from plughost.guard.beneath import Escapes, open_beneath

LARGEST = 1 << 20


class Schemas:
    """Of the packages in use, by their folder and the schema's path in it."""

    def __init__(self) -> None:
        self._checkers: dict[tuple[str, str], Checker] = {}

    def checker(self, package: str, path: str | None) -> Checker | None:
        """InvalidSpec for a schema that cannot be used; None where there is none."""
        if path is None:
            return None
        checker = self._checkers.get((package, path))
        if checker is None:
            checker = self._checkers[package, path] = _compile(package, path)
        return checker


def problems(checker: Checker | None, value: Any) -> list[str]:
    """What of `value` is not as its schema wants it, by name and not by value: it goes into records.

    Nothing without a schema.
    """
    return [] if checker is None or checker.fits(value) else checker.problems(value)


def _compile(package: str, path: str) -> Checker:
    folder = -1
    try:
        folder = os.open(package, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with open(open_beneath(folder, path), "rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        return Checker(msgspec.json.decode(text), mask="the value")
    except (OSError, ValueError, Escapes) as error:
        raise InvalidSpec(f"its schema {path} cannot be used: {error}") from error
    finally:
        if folder >= 0:
            os.close(folder)
