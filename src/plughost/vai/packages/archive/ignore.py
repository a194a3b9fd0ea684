"""Ignore rules: files that are not packed (version control, caches, environments), and `.vaiignore`.

A line of `.vaiignore` is a pattern with `*` and `?`, which do not match a slash. Without a slash it matches a
name at any depth, with one a path from the top of the package; with a slash at its end it matches only
folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

FILE = ".vaiignore"
ALWAYS = (
    ".git", ".gitignore", ".gitattributes", ".gitmodules", ".github", ".hg", ".svn", ".bzr", ".jj",
    "__pycache__", "*.pyc", "*.pyo", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".hypothesis", ".coverage", ".idea", ".vscode", ".DS_Store", "Thumbs.db", "*~", "*.swp", ".env", ".env.*",
    FILE, "*.vai.tar", "marketplace.signature.json", ".marketplace.signature.json.*", ".plughost-pack-*/",
    ".plughost-pull-*/",
)  # fmt: skip
"""Patterns that always apply. The last ones are files that `pack`, `sign` and `pull` write."""


class Pattern(msgspec.Struct, frozen=True):
    """One line of an ignore file."""

    expression: re.Pattern[str]
    anchored: bool
    folders_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether the pattern matches a path."""
        if self.folders_only and not is_folder:
            return False
        return self.expression.fullmatch(path if self.anchored else path.rpartition("/")[2]) is not None


class IgnoreRules:
    """Tells of each path whether it is ignored."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._patterns = [_pattern(line) for line in ALWAYS]
        self._patterns += [_pattern(text) for line in lines if (text := line.strip()) and text[0] != "#"]

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        return any(pattern.matches(path, is_folder=is_folder) for pattern in self._patterns)


def _pattern(line: str) -> Pattern:
    bare = line.rstrip("/")
    wild = {"*": "[^/]*", "?": "[^/]"}
    expression = "".join(wild.get(character) or re.escape(character) for character in bare.removeprefix("/"))
    return Pattern(re.compile(expression), "/" in bare, line.endswith("/"))
