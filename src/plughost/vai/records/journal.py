"""Journal: a write-ahead log of records, written before an answer is released and copied to the database in
batches.

Lines are written into a memory-mapped file: that costs a call next to nothing, and survives kill -9 (not a
power cut). The database is filled from the files, so what waits for it takes no memory. Inserting lines is
idempotent, so nobody needs to remember how far it got. A host holds the locks of its files while it lives;
whoever finds files without a lock ends what their host left running (`recovery.py`). Records that exceed the
retention are removed in small batches, and so is what other pruners remove.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import secrets
import time
from collections.abc import Sequence

import msgspec

from plughost.clock import Clock, Timer
from plughost.errors import PluginError
from plughost.vai.records.record import Entry, EventLogged, Finished, Started
from plughost.vai.records.records import Records
from plughost.vai.records.refused_lines import set_aside
from plughost.vai.records.retention import Pruner, Retention

SUFFIX = ".journal"
NEW = ".new"
FILE_BYTES = 4 << 20
"""Bytes of a journal file; a longer line gets a longer file."""
DELAY = 0.2
"""Longest time in seconds before a line is copied to the database."""
RETRY_DELAY = 5.0
"""Seconds until the next attempt after the database failed."""
BATCH_BYTES = 256 << 10
"""Bytes of lines inserted at a time: other transactions wait for that long."""
CATCH_UP = 32 << 20
"""Bytes of lines that wait for the database, above which a caller waits before it starts an invocation."""
MAX_PENDING = 64 << 20
"""Limit in bytes of lines that wait for the database, and so of the files. Above it no invocation starts and
events are left out. The end of a running invocation is always written."""
PRUNE_EVERY = 60.0
"""Seconds between two prunings, while records are written."""
CLOSE_SECONDS = 10.0
"""Seconds for the database to take the last lines. What it does not take, the next host inserts."""

_encode = msgspec.json.Encoder().encode


class Journal:
    """The journal files of this process, in front of the records in the database."""

    def __init__(
        self,
        folder: str,
        records: Records,
        clock: Clock,
        retention: Retention | None = None,
        pruners: Sequence[Pruner] = (),
    ) -> None:
        self._retention = retention or Retention()
        self._pruners = pruners
        """Called whenever records are pruned."""
        self._folder = folder
        self._records = records
        self._clock = clock
        self.host = secrets.token_hex(8)
        """The name of this process in records and leases."""
        self._numbers = 0
        os.makedirs(folder, 0o700, exist_ok=True)
        self._file = self._next_file(FILE_BYTES)
        self._full: list[_JournalFile] = []
        self._unwritten: list[bytes] = []
        """Ends of invocations that found no room on the disk."""
        self._appended = 0
        self._stored = 0
        """Bytes of lines that the database has; of `_appended`."""
        self._prune_at = clock.time()
        self._timer: Timer | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._caught_up: list[asyncio.Future[None]] = []
        self._closed = False
        self._is_pruning = False
        """Whether there is more to remove than the last batch."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of lines that the database does not have yet."""
        return self._appended - self._stored

    @property
    def is_behind(self) -> bool:
        """See `RecordSink.is_behind`."""
        return self._appended - self._stored > CATCH_UP

    async def catch_up(self) -> None:
        """Waits until the database has taken enough of the lines; see `RecordSink.catch_up`. Also returns if
        the database fails: then `append` has the last word."""
        if self.is_behind and not self._closed:
            self._start_flush()
            waiter = asyncio.get_running_loop().create_future()
            self._caught_up.append(waiter)
            await waiter

    async def commit_start(self, started: Started, key: str | None) -> str:
        """See `RecordSink.commit_start`. This one goes to the database at once, past the files."""
        return await self._records.commit_start(self.host, started, key)

    def append(self, entry: Entry) -> None:
        """Writes one entry to the journal; implements `RecordSink.append`. PluginError when there is no
        room."""
        line = _encode(entry) + b"\n"
        if self._appended - self._stored > MAX_PENDING and not isinstance(entry, Finished):
            if isinstance(entry, EventLogged):
                return  # no room for events until the database accepts records again
            raise PluginError(
                f"records cannot be kept: {self.pending_bytes} bytes of them wait for the database",
                hint=f"check why the database does not take them; {self._folder} has the lines",
            )
        try:
            self._file.write(line)
        except ValueError:  # it is full
            try:
                file = self._next_file(max(FILE_BYTES, len(line)))
            except OSError as error:
                if isinstance(entry, Finished):  # the invocation has ended: keep that in memory at least
                    self._unwritten.append(line)
                    self._on_appended(len(line))
                raise PluginError(
                    f"records cannot be kept: {error.strerror}", hint=f"free disk space for {self._folder}"
                ) from error
            self._full.append(self._file)
            self._file = file
            file.write(line)
        self._on_appended(len(line))

    def _on_appended(self, size: int) -> None:
        self._appended += size
        if self._timer is None:
            self._schedule_flush()

    def _schedule_flush(self, delay: float = DELAY) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.time() + delay, self._start_flush)

    async def flush(self) -> None:
        """Waits until every entry is in the database."""
        while self.pending_bytes or self._flush_task is not None:
            self._start_flush()
            if self._flush_task is not None:
                await asyncio.shield(self._flush_task)
                await asyncio.sleep(0)  # lets the done callback run, which clears the task

    async def close(self) -> None:
        """Copies everything to the database. On failure the files stay for the next host."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self.flush(), CLOSE_SECONDS)
            self._file.remove()
        except (PluginError, TimeoutError):  # told already; the next host inserts the lines
            if self._flush_task is not None:
                self._flush_task.cancel()
                await asyncio.wait([self._flush_task])
            for file in (*self._full, self._file):
                file.close()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._release_waiting()

    def _next_file(self, size: int) -> _JournalFile:
        self._numbers += 1
        return _JournalFile(os.path.join(self._folder, f"{self.host}.{self._numbers}{SUFFIX}"), size)

    def _start_flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flush_task is None and (self.pending_bytes or self._is_pruning):
            self._flush_task = asyncio.get_running_loop().create_task(self._flush_pending())
            self._flush_task.add_done_callback(self._on_flushed)

    async def _flush_pending(self) -> None:
        while self._full:
            await self._store_file(self._full[0])
            self._full.pop(0).remove()  # only now: as long as a file exists, others insert its lines
        await self._store_file(self._file)
        if unwritten := self._unwritten[:]:
            await self._insert(unwritten)
            del self._unwritten[: len(unwritten)]
            self._on_stored(sum(map(len, unwritten)))
        if self._clock.time() >= self._prune_at:
            self._is_pruning = await self._prune(time.time())
            self._prune_at = self._clock.time() + (0.0 if self._is_pruning else PRUNE_EVERY)

    async def _prune(self, now: float) -> bool:
        """Removes one small batch of each kind; returns whether there is more to remove."""
        more = (await self._records.prune(self._retention, now)).more
        for pruner in self._pruners:
            more = (await pruner.prune(now)).more or more
        return more

    async def _store_file(self, file: _JournalFile) -> None:
        while lines := file.next_lines(BATCH_BYTES):
            await self._insert(lines.splitlines())
            file.stored += len(lines)
            self._on_stored(len(lines))

    async def _insert(self, lines: list[bytes]) -> None:
        await set_aside(self._folder, await self._records.insert(self.host, lines))

    def _on_stored(self, size: int) -> None:
        self._stored += size
        if self._caught_up and not self.is_behind:
            self._release_waiting()

    def _release_waiting(self) -> None:
        waiting, self._caught_up = self._caught_up, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _on_flushed(self, task: asyncio.Task[None]) -> None:
        self._flush_task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:  # nothing is lost: the files still have everything
            context = {"message": "writing records is delayed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        self._release_waiting()
        if (self.pending_bytes or self._is_pruning) and not self._closed:
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
            self.stored = 0
            """Bytes of it that the database has."""
        except BaseException:
            os.unlink(path)
            os.close(self._fd)
            raise

    def next_lines(self, size: int) -> bytes:
        """The next lines that the database does not have: at least one, and at most `size` bytes of more."""
        start, end = self.stored, self._memory.tell()
        if end - start > size:
            end = max(self._memory.rfind(b"\n", start, start + size), self._memory.find(b"\n", start)) + 1
        return self._memory[start:end]

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
