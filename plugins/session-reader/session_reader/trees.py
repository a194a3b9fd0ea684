"""Where logs are: below a folder, as they are found each time, and what in it is not looked into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from plughost_sdk.ainb import Error
from session_reader import claude, codex
from session_reader.files import Counted, File, Found

DENIED = -32001
DEEPEST = 8
MOST_FILES = 100_000
LONGEST_LINK = 4096
"""Bytes; what is larger is no symlink."""
TOO_DEEP = f"more than {DEEPEST} folders deep: not looked into"
MISSING = ("No such file or directory", "No such file or directory (os error 2)")
LINK = "a link to a folder: not followed"
LEADS_OUT = "a link that leads out: not followed"


class Folders(Protocol):
    """The host's files, as the SDK has them."""

    def read_dir(self, path: str) -> list[Any]: ...

    def reading(self, path: str, offset: int = 0, length: int | None = None) -> Callable[[], bytes]: ...


class Tree:
    """The logs below a folder."""

    def __init__(self, root: str, kind: Callable[[str, str], Any]) -> None:
        self.root = root
        self._kind = kind
        self._files: dict[str, File] = {}
        self._others: dict[str, tuple[int, int, str]] = {}
        """What is neither a log nor a folder: its size and time, and what is told of it."""
        self._is_denied = False
        """Which stays so while we live: to ask again would only fill the host's log."""
        self.trouble = ""
        """Why its root could not be read; a root that is not there has nothing to be read."""

    def look(self, files: Folders, counted: Counted, *, again: bool = True) -> list[Found]:
        """Those that have changed; and `again` those that could not be read."""
        if self._is_denied:
            return []
        found = {}
        walk = Walk(files, self._others)
        for path, folder, entry in walk.below(self.root, DEEPEST):
            known = self._files.get(path) or File(path, folder, entry.name.removesuffix(".jsonl"), self._kind)
            found[path] = known, entry
            if len(found) >= MOST_FILES:
                break
        self._files = {path: known for path, (known, _) in found.items()}
        self._others = walk.others
        self._is_denied = walk.denied == self.root
        refused = walk.told.get(self.root, "")
        self.trouble = "" if refused.endswith(MISSING) else refused
        for path in [*counted.unreadable]:
            if f"{path}/".startswith(f"{self.root}/") and path not in self._files and path not in walk.told:
                del counted.unreadable[path]  # it is gone, or can be read by now
        counted.unreadable.update(walk.told)
        return [
            (entry.modified_ns, entry.size, known)
            for known, entry in found.values()
            if known.seen != (entry.size, entry.modified_ns) or (again and known.refused)
        ]

    def __len__(self) -> int:
        return len(self._files)


class Walk:
    """One look through folders."""

    def __init__(self, files: Folders, before: dict[str, tuple[int, int, str]]) -> None:
        self._files = files
        self._before = before
        self.others: dict[str, tuple[int, int, str]] = {}
        self.told: dict[str, str] = {}
        """What is not looked into, and why."""
        self.denied = ""
        """A folder that no capability opens."""

    def below(self, folder: str, depth: int) -> Iterator[tuple[str, str, Any]]:
        """The logs, each with the name of its folder."""
        try:
            entries = self._files.read_dir(folder)
        except Error as error:
            self.told[folder] = error.message
            self.denied = folder if error.code == DENIED else self.denied
            return
        for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):
            path = f"{folder}/{entry.name}"
            if entry.is_dir and depth:
                yield from self.below(path, depth - 1)
            elif entry.is_dir:
                self.told[path] = TOO_DEEP
            elif entry.name.endswith(".jsonl"):
                yield path, folder.rpartition("/")[2], entry
            elif entry.size <= LONGEST_LINK and len(self.others) < MOST_FILES:
                self._look_at(path, entry)

    def _look_at(self, path: str, entry: Any) -> None:
        """The host tells of a link to a folder as of a file: so it is asked, once for each that is new."""
        size, modified, told = self._before.get(path, (-1, -1, ""))
        if (size, modified) != (entry.size, entry.modified_ns):
            told = self._kind(path)
        self.others[path] = entry.size, entry.modified_ns, told
        if told:
            self.told[path] = told

    def _kind(self, path: str) -> str:
        try:
            self._files.read_dir(path)
        except Error as error:
            return LEADS_OUT if error.code == DENIED else ""  # no folder
        return LINK


def trees(home: str) -> list[Tree]:
    return [Tree(f"{home}/.claude/projects", claude.Log), Tree(f"{home}/.codex/sessions", codex.Log)]
