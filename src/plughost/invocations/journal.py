"""Records as lines, written before an answer is released; a database follows behind in batches.

One write to a file in the page cache is what a call can afford, and it outlives kill -9 (not a power cut).
Taking lines into the database twice changes nothing, so nobody needs to remember how far it got. A host holds
the lock of its file while it lives; whoever finds a file without one ends what that host left running.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import time
from collections.abc import Iterator

import msgspec

from plughost.base.clock import Clock, Timer
from plughost.invocations.record import Entry
from plughost.invocations.record_book import RecordBook

SUFFIX = ".journal"
DELAY = 0.2
"""Seconds that a line may wait for the database."""
LARGEST = 16 << 20
"""Bytes of a file that is begun anew when the database has it all."""

_encoder = msgspec.json.Encoder()


class Journal:
    """This process's own file, and the book that all processes of one folder share."""

    def __init__(self, folder: str, clock: Clock) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        settle(folder)
        self._folder = folder
        self._clock = clock
        self._path, self._fd = _begin(folder)
        self._name = os.path.basename(self._path).removesuffix(SUFFIX)
        self._size = 0
        self._behind: list[bytes] = []
        self._due: Timer | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._book: RecordBook | None = None

    def tell(self, entry: Entry) -> None:
        line = _encoder.encode(entry) + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):  # a full disk: the rest of the line would be read as another
            os.ftruncate(self._fd, self._size)
            raise OSError(28, "no room for the record of an invocation")
        self._size += written
        self._behind.append(line)
        if self._due is None:
            self._due = self._clock.call_at(self._clock.time() + DELAY, self._catch_up)

    async def caught_up(self) -> None:
        """Until the database has everything that was told."""
        while self._behind or self._catching_up is not None:
            if self._catching_up is None:
                self._catch_up()
            if self._catching_up is not None:
                await asyncio.shield(self._catching_up)
                await asyncio.sleep(0)  # one that was done before is forgotten in the next pass

    async def close(self) -> None:
        if self._fd < 0:
            return
        await self.caught_up()
        if self._due is not None:
            self._due.cancel()
        if self._book is not None:
            self._book.close()
        os.unlink(self._path)
        os.close(self._fd)
        self._fd = -1

    def _catch_up(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._catching_up is None and self._behind:
            self._catching_up = asyncio.get_running_loop().create_task(self._take())
            self._catching_up.add_done_callback(self._caught)

    async def _take(self) -> None:
        lines, self._behind = self._behind, []
        await asyncio.to_thread(self._into_book, lines)
        if not self._behind and self._size > LARGEST:
            os.ftruncate(self._fd, 0)
            self._size = 0

    def _into_book(self, lines: list[bytes]) -> None:
        if self._book is None:
            self._book = RecordBook(self._folder)
        self._book.take(self._name, lines)

    def _caught(self, task: asyncio.Task[None]) -> None:
        self._catching_up = None
        error = None if task.cancelled() else task.exception()
        if error is not None:  # the file still has everything; whoever settles it next takes it in
            told = {"message": "records are behind", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
        elif self._behind and self._due is None:
            self._due = self._clock.call_at(self._clock.time() + DELAY, self._catch_up)


def settle(folder: str) -> None:
    """Take in what live hosts wrote, and end in the records what dead ones left running."""
    with RecordBook(folder) as book:
        for path, fd in _journals(folder):
            name = os.path.basename(path).removesuffix(SUFFIX)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                dead = True
            except BlockingIOError:
                dead = False
            with open(fd, "rb") as file:
                book.take(name, _whole_lines(file.read()))
                if dead:
                    book.end_all_of(name, time.time())
                    os.unlink(path)


def _begin(folder: str) -> tuple[str, int]:
    """A file of one's own, locked and still there: somebody may settle it between the two."""
    while True:
        path = os.path.join(folder, secrets.token_hex(8) + SUFFIX)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return path, fd
        os.close(fd)


def _journals(folder: str) -> Iterator[tuple[str, int]]:
    for name in sorted(os.listdir(folder)):
        if name.endswith(SUFFIX):
            path = os.path.join(folder, name)
            try:
                yield path, os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # its host has ended well meanwhile


def _whole_lines(data: bytes) -> list[bytes]:
    """A host killed in the middle of a line had not released that answer."""
    return data[: data.rfind(b"\n") + 1].splitlines()
