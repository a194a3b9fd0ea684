"""Journal: a write-ahead log of records, written before an answer is released and copied to the database in
batches.

Lines are written into a memory-mapped file: that costs a call next to nothing, and survives kill -9 (not a
power cut). Inserting lines into the database is idempotent, so nobody needs to remember how far it got. A
host holds the locks of its files while it lives; whoever finds files without a lock records the invocations
that their host left running as failed. Records that exceed the retention are removed in small batches.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator

import msgspec

from plughost.clock import Clock, Timer
from plughost.errors import PluginError
from plughost.vai.records.database import RecordDatabase
from plughost.vai.records.record import Entry, EventLogged, Finished
from plughost.vai.records.retention import Retention

SUFFIX = ".journal"
NEW = ".new"
SIZE = 4 << 20
"""Bytes of a journal file; a longer line gets a longer file."""
DELAY = 0.2
"""Longest time in seconds before a line is copied to the database."""
PATIENCE = 5.0
"""Seconds until the next attempt after the database failed."""
BITE = 64
"""Lines inserted at a time: the thread that inserts them blocks the others (GIL) for that long."""
BREATH = 0.002
"""Pause between two batches, in seconds."""
MOST_BEHIND = 64 << 20
"""Limit in bytes of lines that wait for the database, and so of the files. Above it no invocation starts and
events are left out. The end of a running invocation is always written."""
PRUNE_EVERY = 60.0
"""Seconds between two prunings, while records are written."""

_encode = msgspec.json.Encoder().encode


class Journal:
    """The journal files of this process, and the database that all processes of one folder share."""

    def __init__(self, folder: str, clock: Clock, retention: Retention | None = None) -> None:
        self._retention = retention or Retention()
        settle(folder, self._retention)
        self._folder = folder
        self._clock = clock
        self._host = secrets.token_hex(8)
        self._numbers = 0
        self._page = self._next_page(SIZE)
        self._full: list[_Page] = []
        self._behind: list[bytes] = []
        self._behind_bytes = 0
        self._prune_at = clock.time()
        self._due: Timer | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._book: RecordDatabase | None = None
        self._closed = False
        self._is_pruning = False
        """There is more to remove than the last bite took."""

    def tell(self, entry: Entry) -> None:
        """Writes one entry to the journal; implements `RecordSink.tell`. PluginError when there is no
        room."""
        line = _encode(entry) + b"\n"
        if self._behind_bytes > MOST_BEHIND and not isinstance(entry, Finished):
            if isinstance(entry, EventLogged):
                return  # there is no room for events until the database takes records again
            raise PluginError(
                f"records cannot be kept: {self._behind_bytes} bytes of them wait for the database",
                hint=f"see why {self._folder} cannot be written to",
            )
        try:
            self._page.write(line)
        except ValueError:  # it is full
            try:
                page = self._next_page(max(SIZE, len(line)))
            except OSError as error:
                if isinstance(entry, Finished):  # it is over, even if nobody can be told now
                    self._fall_behind(line)
                raise PluginError(
                    f"records cannot be kept: {error.strerror}", hint=f"make room in {self._folder}"
                ) from error
            self._full.append(self._page)
            self._page = page
            page.write(line)
        self._fall_behind(line)

    def _fall_behind(self, line: bytes) -> None:
        self._behind.append(line)
        self._behind_bytes += len(line)
        if self._due is None:
            self._wake_later()

    def _wake_later(self, delay: float = DELAY) -> None:
        if self._due is None:
            self._due = self._clock.call_at(self._clock.time() + delay, self._catch_up)

    async def caught_up(self) -> None:
        """Waits until every entry is in the database."""
        while self._behind or self._catching_up is not None:
            self._catch_up()
            if self._catching_up is not None:
                await asyncio.shield(self._catching_up)
                await asyncio.sleep(0)  # one that was done before is forgotten in the next pass

    async def close(self) -> None:
        """Copies everything to the database and closes it. On failure the files stay for the next host."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.caught_up()
            self._page.remove()
        except (
            PluginError,
            sqlite3.Error,
        ):  # told already; the next who settles takes them in
            for page in (*self._full, self._page):
                page.close()
        finally:
            if self._due is not None:
                self._due.cancel()
            if self._book is not None:
                self._book.close()

    def _next_page(self, size: int) -> _Page:
        self._numbers += 1
        return _Page(os.path.join(self._folder, f"{self._host}.{self._numbers}{SUFFIX}"), size)

    def _catch_up(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._catching_up is None and (self._behind or self._is_pruning):
            self._catching_up = asyncio.get_running_loop().create_task(self._take())
            self._catching_up.add_done_callback(self._caught)

    async def _take(self) -> None:
        lines, full = len(self._behind), len(self._full)
        taken = self._behind[:lines]
        prunes = self._clock.time() >= self._prune_at
        more = await asyncio.to_thread(self._into_book, taken, prunes)
        del self._behind[:lines]
        self._behind_bytes -= sum(map(len, taken))
        if prunes:
            self._is_pruning = more
            self._prune_at = self._clock.time() + (0.0 if more else PRUNE_EVERY)
        while full:  # only now: whoever finds a file takes it in
            self._full.pop(0).remove()
            full -= 1

    def _into_book(self, lines: list[bytes], prunes: bool) -> bool:
        """Inserts lines into the database, and prunes one batch. Returns whether there is more to prune."""
        if self._book is None:
            self._book = RecordDatabase(self._folder)
        for start in range(0, len(lines), BITE):
            self._book.take(self._host, lines[start : start + BITE])
            if start + BITE < len(lines):
                time.sleep(BREATH)
        return prunes and self._book.prune(self._retention, time.time()).more

    def _caught(self, task: asyncio.Task[None]) -> None:
        self._catching_up = None
        error = None if task.cancelled() else task.exception()
        if error is not None:  # the files still have everything
            told = {"message": "records are behind", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
        if (self._behind or self._is_pruning) and not self._closed:
            self._wake_later(DELAY if error is None else PATIENCE)


class _Page:
    """A locked, memory-mapped file for lines, filled with zeros after the last one."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._fd = _locked(path)
        try:
            os.posix_fallocate(self._fd, 0, size)  # a full disk is met here, not in the middle of a line
            self._memory = mmap.mmap(self._fd, size)
            self.write = self._memory.write
            """ValueError when there is no room for all of it."""
        except BaseException:
            os.unlink(path)
            os.close(self._fd)
            raise

    def remove(self) -> None:
        os.unlink(self._path)
        self.close()

    def close(self) -> None:
        self._memory.close()
        os.close(self._fd)


def _locked(path: str) -> int:
    """Creates a file that never exists without its lock: otherwise its host would look dead."""
    while True:
        fd = os.open(path + NEW, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.rename(path + NEW, path)
            return fd
        except FileNotFoundError:  # somebody has swept it
            os.close(fd)
        except BaseException:
            os.close(fd)
            raise


def settle(folder: str, retention: Retention | None = None) -> None:
    """Recovers journals: inserts what live hosts wrote, and records what dead hosts left running as failed.

    With a `retention`, also prunes one batch of records.
    """
    with RecordDatabase(folder) as book:
        dead: dict[str, list[str]] = {}
        for host, path, fd in _pages(folder):
            with open(fd, "rb") as file:
                held = _is_held(fd)
                book.take(host, _whole_lines(file.read()))
                if not held and os.fstat(fd).st_nlink:  # a live host's own is gone before its lock is
                    dead.setdefault(host, []).append(path)
        for host, paths in dead.items():
            book.end_all_of(host, time.time())
            for path in paths:
                _unlink(path)
        if retention is not None:
            book.prune(retention, time.time())


def _pages(folder: str) -> Iterator[tuple[str, str, int]]:
    for name in sorted(os.listdir(folder), key=_in_order):
        if not name.endswith((SUFFIX, SUFFIX + NEW)):
            continue
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its host needs it no more
        if name.endswith(SUFFIX):
            yield name.partition(".")[0], path, fd
            continue
        if not _is_held(fd):
            _unlink(path)
        os.close(fd)


def _in_order(name: str) -> tuple[str, int]:
    """Sort key: the files of a host in the order of their numbers, so that a start is inserted before its
    events."""
    host, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return host, int(number) if number.isdecimal() else 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # somebody else has settled it, too


def _is_held(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _whole_lines(data: bytes) -> list[bytes]:
    """Complete lines only: a host killed in the middle of a line had not released that answer."""
    return data[: data.rfind(b"\n") + 1].splitlines()
