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
FILE_BYTES = 4 << 20
"""Bytes of a journal file; a longer line gets a longer file."""
DELAY = 0.2
"""Longest time in seconds before a line is copied to the database."""
RETRY_DELAY = 5.0
"""Seconds until the next attempt after the database failed."""
BATCH = 64
"""Lines inserted at a time: the thread that inserts them blocks the others (GIL) for that long."""
BATCH_PAUSE = 0.002
"""Pause between two batches, in seconds."""
MAX_PENDING = 64 << 20
"""Limit in bytes of lines that wait for the database, and so of the files. Above it no invocation starts and
events are left out. The end of a running invocation is always written."""
PRUNE_EVERY = 60.0
"""Seconds between two prunings, while records are written."""

_encode = msgspec.json.Encoder().encode


class Journal:
    """The journal files of this process, and the database that all processes of one folder share."""

    def __init__(self, folder: str, clock: Clock, retention: Retention | None = None) -> None:
        self._retention = retention or Retention()
        recover(folder, self._retention)
        self._folder = folder
        self._clock = clock
        self._host = secrets.token_hex(8)
        self._numbers = 0
        self._file = self._next_file(FILE_BYTES)
        self._full: list[_JournalFile] = []
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._prune_at = clock.time()
        self._timer: Timer | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._database: RecordDatabase | None = None
        self._closed = False
        self._is_pruning = False
        """Whether there is more to remove than the last batch."""

    def append(self, entry: Entry) -> None:
        """Writes one entry to the journal; implements `RecordSink.append`. PluginError when there is no
        room."""
        line = _encode(entry) + b"\n"
        if self._pending_bytes > MAX_PENDING and not isinstance(entry, Finished):
            if isinstance(entry, EventLogged):
                return  # no room for events until the database accepts records again
            raise PluginError(
                f"records cannot be kept: {self._pending_bytes} bytes of them wait for the database",
                hint=f"check why {self._folder} cannot be written",
            )
        try:
            self._file.write(line)
        except ValueError:  # it is full
            try:
                file = self._next_file(max(FILE_BYTES, len(line)))
            except OSError as error:
                if isinstance(entry, Finished):  # the invocation has ended: keep that in memory at least
                    self._enqueue(line)
                raise PluginError(
                    f"records cannot be kept: {error.strerror}", hint=f"free disk space for {self._folder}"
                ) from error
            self._full.append(self._file)
            self._file = file
            file.write(line)
        self._enqueue(line)

    def _enqueue(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._timer is None:
            self._schedule_flush()

    def _schedule_flush(self, delay: float = DELAY) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.time() + delay, self._start_flush)

    async def flush(self) -> None:
        """Waits until every entry is in the database."""
        while self._pending or self._flush_task is not None:
            self._start_flush()
            if self._flush_task is not None:
                await asyncio.shield(self._flush_task)
                await asyncio.sleep(0)  # lets the done callback run, which clears the task

    async def close(self) -> None:
        """Copies everything to the database and closes it. On failure the files stay for the next host."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.flush()
            self._file.remove()
        except (
            PluginError,
            sqlite3.Error,
        ):  # told already; the next who settles takes them in
            for file in (*self._full, self._file):
                file.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._database is not None:
                self._database.close()

    def _next_file(self, size: int) -> _JournalFile:
        self._numbers += 1
        return _JournalFile(os.path.join(self._folder, f"{self._host}.{self._numbers}{SUFFIX}"), size)

    def _start_flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flush_task is None and (self._pending or self._is_pruning):
            self._flush_task = asyncio.get_running_loop().create_task(self._flush_pending())
            self._flush_task.add_done_callback(self._on_flushed)

    async def _flush_pending(self) -> None:
        lines, full = len(self._pending), len(self._full)
        taken = self._pending[:lines]
        prunes = self._clock.time() >= self._prune_at
        more = await asyncio.to_thread(self._insert, taken, prunes)
        del self._pending[:lines]
        self._pending_bytes -= sum(map(len, taken))
        if prunes:
            self._is_pruning = more
            self._prune_at = self._clock.time() + (0.0 if more else PRUNE_EVERY)
        while full:  # only now: as long as a file exists, others insert its lines
            self._full.pop(0).remove()
            full -= 1

    def _insert(self, lines: list[bytes], prunes: bool) -> bool:
        """Inserts lines into the database, and prunes one batch. Returns whether there is more to prune."""
        if self._database is None:
            self._database = RecordDatabase(self._folder)
        for start in range(0, len(lines), BATCH):
            self._database.insert(self._host, lines[start : start + BATCH])
            if start + BATCH < len(lines):
                time.sleep(BATCH_PAUSE)
        return prunes and self._database.prune(self._retention, time.time()).more

    def _on_flushed(self, task: asyncio.Task[None]) -> None:
        self._flush_task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:  # nothing is lost: the files still have everything
            context = {"message": "writing records is delayed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        if (self._pending or self._is_pruning) and not self._closed:
            self._schedule_flush(DELAY if error is None else RETRY_DELAY)


class _JournalFile:
    """A locked, memory-mapped file for lines, filled with zeros after the last one."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._fd = _create_locked(path)
        try:
            os.posix_fallocate(self._fd, 0, size)  # so that a full disk fails here, not within a line
            self._memory = mmap.mmap(self._fd, size)
            self.write = self._memory.write
            """Raises ValueError when there is no room for the whole line."""
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


def _create_locked(path: str) -> int:
    """Creates a file that never exists without its lock: otherwise its host would look dead."""
    while True:
        fd = os.open(path + NEW, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.rename(path + NEW, path)
            return fd
        except FileNotFoundError:  # another process has removed it in `recover`
            os.close(fd)
        except BaseException:
            os.close(fd)
            raise


def recover(folder: str, retention: Retention | None = None) -> None:
    """Recovers journals: inserts what live hosts wrote, and records what dead hosts left running as failed.

    With a `retention`, also prunes one batch of records.
    """
    with RecordDatabase(folder) as database:
        dead: dict[str, list[str]] = {}
        for host, path, fd in _open_files(folder):
            with open(fd, "rb") as file:
                locked = _is_locked(fd)
                database.insert(host, _whole_lines(file.read()))
                if not locked and os.fstat(fd).st_nlink:  # a closing host unlinks its file, then unlocks it
                    dead.setdefault(host, []).append(path)
        for host, paths in dead.items():
            database.fail_running(host, time.time())
            for path in paths:
                _unlink(path)
        if retention is not None:
            database.prune(retention, time.time())


def _open_files(folder: str) -> Iterator[tuple[str, str, int]]:
    for name in sorted(os.listdir(folder), key=_file_order):
        if not name.endswith((SUFFIX, SUFFIX + NEW)):
            continue
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its host has removed it
        if name.endswith(SUFFIX):
            yield name.partition(".")[0], path, fd
            continue
        if not _is_locked(fd):
            _unlink(path)
        os.close(fd)


def _file_order(name: str) -> tuple[str, int]:
    """Sort key: the files of a host in the order of their numbers, so that a start is inserted before its
    events."""
    host, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return host, int(number) if number.isdecimal() else 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another process has recovered it, too


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _whole_lines(data: bytes) -> list[bytes]:
    """Complete lines only: a host killed in the middle of a line had not released that answer."""
    return data[: data.rfind(b"\n") + 1].splitlines()
