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
"""Bytes that are read at a time. A line that is longer is left out."""
OVERLAP = 64
"""Bytes before the new ones that are read again, to see that the file is the one that was read before."""
DEEPEST = 8
MOST_FILES = 100_000


class Folders(Protocol):
    """The host's files, as the SDK has them."""

    def read_dir(self, path: str) -> list[Any]: ...

    def read_file(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...


class Counted:
    """What became of the lines."""

    def __init__(self) -> None:
        self.bytes = 0
        self.skipped = 0
        """Lines that should tell of usage and cannot be read, or are too long to be looked at."""
        self.unreadable: dict[str, str] = {}
        """Files and folders that the host does not give out, and why."""


class File:
    """One log, read up to somewhere."""

    def __init__(self, path: str, folder: str, name: str, kind: Callable[[str, str], Any]) -> None:
        self.path = path
        self.folder = folder
        self._name = name
        self._kind = kind
        self._number = int.from_bytes(blake2b(path.encode(), digest_size=8).digest())
        self.seen = (-1, -1)
        """Its size and time when it was looked at last."""
        self._begin()

    def _begin(self) -> None:
        self._log = self._kind(self.folder, self._name)
        self._offset = 0
        self._before = b""
        self._inside = False
        """In the middle of a line that is too long."""

    def follow(self, size: int, files: Folders, counted: Counted) -> Iterator[list[tuple[object, Call]]]:
        """What has been added since, a block at a time. If it is another file by now, all of it."""
        if size < self._offset:
            self._begin()
        while True:
            block = files.read_file(self.path, self._offset - len(self._before), BLOCK)
            if not block.startswith(self._before):
                self._begin()
                continue
            block = block[len(self._before) :]
            end = whole(block)
            counted.bytes += end
            yield [*self._calls(block, end, counted)]
            full = len(block) + len(self._before) >= BLOCK
            if not end and full:  # a line without an end in sight
                counted.skipped += not self._inside
                self._inside, end = True, len(block)
            self._before = (self._before + block[:end])[-OVERLAP:]
            self._offset += end
            if not full:
                return

    def _calls(self, block: bytes, end: int, counted: Counted) -> Iterator[tuple[object, Call]]:
        cut = block.find(b"\n") + 1 if self._inside and end else 0
        self._inside = self._inside and not end
        for place, line in holding(block, end, self._log.words):
            if place < cut:
                continue  # the end of a line that was too long
            try:
                told = self._log.read(line, (self._number + self._offset + place) % 2**64)
            except Unusable:
                counted.skipped += 1
            else:
                if told is not None:
                    yield told


class Tree:
    """The logs below a folder, as they are found each time."""

    def __init__(self, root: str, kind: Callable[[str, str], Any]) -> None:
        self.root = root
        self._kind = kind
        self._files: dict[str, File] = {}

    def look(self, files: Folders, counted: Counted) -> list[tuple[int, int, File]]:
        """Those that have changed, with time and size."""
        found = {}
        for path, folder, entry in self._walk(files, self.root, DEEPEST, counted):
            known = self._files.get(path) or File(path, folder, entry.name.removesuffix(".jsonl"), self._kind)
            found[path] = known, entry
            if len(found) >= MOST_FILES:
                break
        self._files = {path: known for path, (known, _) in found.items()}
        return [
            (entry.modified_ns, entry.size, known)
            for known, entry in found.values()
            if known.seen != (entry.size, entry.modified_ns)
        ]

    def __len__(self) -> int:
        return len(self._files)

    def _walk(
        self, files: Folders, folder: str, depth: int, counted: Counted
    ) -> Iterator[tuple[str, str, Any]]:
        try:
            entries = files.read_dir(folder)
            counted.unreadable.pop(folder, None)
        except Error as error:
            counted.unreadable[folder] = error.message
            return
        for entry in sorted(entries, key=lambda entry: entry.name, reverse=True):
            path = f"{folder}/{entry.name}"
            if entry.is_dir and depth:
                yield from self._walk(files, path, depth - 1, counted)
            elif not entry.is_dir and entry.name.endswith(".jsonl"):
                yield path, folder.rpartition("/")[2], entry


def trees(home: str) -> list[Tree]:
    return [Tree(f"{home}/.claude/projects", claude.Log), Tree(f"{home}/.codex/sessions", codex.Log)]
