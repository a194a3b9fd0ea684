"""Log files, followed through the host: of each only what has been added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

from session_reader.call import Call, Unusable
from session_reader.lines import holding, whole

BLOCK = 4 << 20
"""Bytes that are read at a time: large ones cost less."""
LONGEST = 4 << 20
"""Bytes of a line that is looked at."""
OVERLAP = 1024
"""Bytes before the new ones that are read again, to see that the file is the one that was read before."""


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
