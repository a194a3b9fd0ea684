"""Log files, found and followed through the host: newest first, and of each only what has been added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, Protocol

from plughost_sdk.ainb import Error
from session_reader import claude, codex
from session_reader.call import Call, Unusable
from session_reader.lines import holding, whole

BLOCK = 4 << 20
"""Bytes that are read at a time: large ones cost less."""
LONGEST = 4 << 20
"""Bytes of a line that is looked at."""
OVERLAP = 1024
"""Bytes before the new ones that are read again, to see that the file is the one that was read before."""
DENIED = -32001
DEEPEST = 8
MOST_FILES = 100_000


class Folders(Protocol):
    """The host's files, as the SDK has them."""

    def read_dir(self, path: str) -> list[Any]: ...

    def reading(self, path: str, offset: int = 0, length: int | None = None) -> Callable[[], bytes]: ...


class Counted:
    """What became of the lines."""

    def __init__(self) -> None:
        self.bytes = 0
        self.skipped = 0
        """Lines that should tell of usage and cannot be read, or are too long to be looked at."""
        self.unreadable: dict[str, str] = {}
        """Files and folders that the host does not give out, and why."""


class File:
    """One log, read up to the end of some line."""

    def __init__(self, path: str, folder: str, name: str, kind: Callable[[str, str], Any]) -> None:
        self.path = path
        self.folder = folder
        self._name = name
        self._kind = kind
        self._number = int.from_bytes(blake2b(path.encode(), digest_size=8).digest())
        self.seen = (-1, -1)
        """Its size and time when it was looked at last."""
        self.refused = False
        """It could not be read then, which may be over although nothing about the file has changed."""
        self._begin()

    def _begin(self) -> None:
        self._log = self._kind(self.folder, self._name)
        self._offset = 0
        self._before = b""
        """What the lines up to there end with."""
        self._rest = b""
        """The beginning of a line."""
        self._inside = False
        """In a line that is too long."""
        self._next = -1

    def plan(self, size: int) -> range:
        """Where the blocks begin that are to be taken now; there is one even if nothing was added."""
        self._rest = b""
        self._next = start = self._offset - len(self._before)
        return range(start, max(size, start + 1), BLOCK)

    def take(self, start: int, block: bytes, counted: Counted) -> list[tuple[object, Call]] | None:
        """The calls in a block; None when the file is not what it was, and is to be looked at again."""
        if start != self._next:
            return None
        self._next += len(block)
        if start < self._offset:
            if not block.startswith(self._before):
                self._begin()
                return None
            block = block[len(self._before) :]
        data = self._rest + block
        end = whole(data)
        calls = [*self._calls(data, end, counted)]
        if len(data) - end > LONGEST:
            counted.skipped += not self._inside
            self._inside, end = True, len(data)
        counted.bytes += end
        self._before = (self._before + data[max(0, end - OVERLAP) : end])[-OVERLAP:]
        self._offset += end
        self._rest = data[end:]
        return calls

    def _calls(self, data: bytes, end: int, counted: Counted) -> Iterator[tuple[object, Call]]:
        cut = data.find(b"\n") + 1 if self._inside and end else 0
        self._inside = self._inside and not end
        for place, line in holding(data, end, self._log.words):
            if place < cut:
                continue  # the end of a line that was too long
            try:
                if len(line) > LONGEST:
                    raise Unusable("too long")
                told = self._log.read(line, (self._number + self._offset + place) % 2**64)
            except Unusable:
                counted.skipped += 1
            else:
                if told is not None:
                    yield told


Found = tuple[int, int, File]
"""When it changed, how large it is, and the file."""


Wanted = tuple[Found, int]
"""A file, and where in it a block begins."""


def wanted(found: list[Found]) -> Iterator[Wanted]:
    """Every block that is to be read."""
    for each in found:
        _, size, file = each
        for start in file.plan(size):
            yield each, start


class Tree:
    """The logs below a folder, as they are found each time."""

    def __init__(self, root: str, kind: Callable[[str, str], Any]) -> None:
        self.root = root
        self._kind = kind
        self._files: dict[str, File] = {}
        self._is_denied = False
        """Which stays so while we live: to ask again would only fill the host's log."""

    def look(self, files: Folders, counted: Counted, *, again: bool = True) -> list[Found]:
        """Those that have changed; and `again` those that could not be read."""
        if self._is_denied:
            return []
        found = {}
        told: dict[str, str] = {}
        for path, folder, entry in self._walk(files, self.root, DEEPEST, told):
            known = self._files.get(path) or File(path, folder, entry.name.removesuffix(".jsonl"), self._kind)
            found[path] = known, entry
            if len(found) >= MOST_FILES:
                break
        self._files = {path: known for path, (known, _) in found.items()}
        for path in [*counted.unreadable]:
            if f"{path}/".startswith(f"{self.root}/") and path not in self._files and path not in told:
                del counted.unreadable[path]  # it is gone, or can be read by now
        counted.unreadable.update(told)
        return [
            (entry.modified_ns, entry.size, known)
            for known, entry in found.values()
            if known.seen != (entry.size, entry.modified_ns) or (again and known.refused)
        ]

    def __len__(self) -> int:
        return len(self._files)

    def _walk(
        self, files: Folders, folder: str, depth: int, told: dict[str, str]
    ) -> Iterator[tuple[str, str, Any]]:
        """The logs, and into `told` why a folder is not looked into."""
        try:
            entries = files.read_dir(folder)
        except Error as error:
            told[folder] = error.message
            self._is_denied = folder == self.root and error.code == DENIED
            return
        for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):
            path = f"{folder}/{entry.name}"
            if entry.is_dir and depth:
                yield from self._walk(files, path, depth - 1, told)
            elif not entry.is_dir and entry.name.endswith(".jsonl"):
                yield path, folder.rpartition("/")[2], entry


def trees(home: str) -> list[Tree]:
    return [Tree(f"{home}/.claude/projects", claude.Log), Tree(f"{home}/.codex/sessions", codex.Log)]
