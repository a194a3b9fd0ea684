"""Reads under way while others are looked at: so many that nobody waits, so few that memory has an end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from plughost_sdk.ainb import Error
from session_reader import files
from session_reader.files import Wanted
from session_reader.trees import Folders

MOST_READS = 16
"""With one, each small file takes a round trip that somebody waits for."""
MOST_BYTES = 4 << 20
"""Of all of them, by what the files were like when they were found. Of large blocks one is under way."""


class Ahead:
    """Every block that is wanted, in its order; or why it could not be had."""

    def __init__(self, host: Folders, todo: Iterator[Wanted]) -> None:
        self._host = host
        self._todo = todo
        self._following = next(todo, None)
        self._asked: deque[tuple[Wanted, Callable[[], bytes]]] = deque()
        self._bytes = 0

    def __iter__(self) -> Iterator[tuple[Wanted, bytes | Error]]:
        self._ask()
        while self._asked:
            wanted, read = self._asked.popleft()
            block = _answer(read)
            self._bytes -= _size(wanted)
            self._ask()  # the host reads those while this one is looked at
            yield wanted, block

    def _ask(self) -> None:
        while self._following is not None and len(self._asked) < MOST_READS:
            wanted = self._following
            if self._asked and self._bytes + _size(wanted) > MOST_BYTES:
                return
            (_, _, file), start = wanted
            self._asked.append((wanted, self._host.reading(file.path, start, files.BLOCK)))
            self._bytes += _size(wanted)
            self._following = next(self._todo, None)

    def close(self) -> None:
        """What was asked for must be taken, also when nobody wants it any more."""
        while self._asked:
            _, read = self._asked.popleft()
            with suppress(Exception):
                read()


def _size(wanted: Wanted) -> int:
    (_, size, _), start = wanted
    return max(0, min(size - start, files.BLOCK))


def _answer(read: Callable[[], bytes]) -> bytes | Error:
    try:
        return read()
    except Error as error:
        return error
