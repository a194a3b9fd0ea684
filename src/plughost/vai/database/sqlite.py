"""SqliteDatabase: one file, one thread that writes, and a few that read.

A commit that is synced to disk costs hundreds of times what a statement costs. So the writer takes everything
that waits and commits it together; each transaction has a savepoint, so that one that fails takes no other
along.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import msgspec

from plughost._util.sqlite import create_private, retry_while_busy
from plughost.errors import Stopped
from plughost.vai.database.errors import DatabaseUnavailable, ValueRefused
from plughost.vai.database.migrations import pending
from plughost.vai.database.statements import Batch, Dialect, Query, Result

BUSY_TIMEOUT = 10.0
"""Seconds to wait for another process that writes."""
MAX_WAL_BYTES = 4 << 20
"""Bytes to which SQLite truncates its write-ahead log after a checkpoint."""
MAX_TOGETHER = 512
"""Transactions that share a commit, at most."""
MAX_TOGETHER_SECONDS = 0.05
"""After this time a commit takes no further transaction: those who have theirs would wait for it."""
READERS = 2

_SETTINGS = (
    "PRAGMA auto_vacuum = INCREMENTAL",  # effective for a new file only
    "PRAGMA journal_mode = WAL",
    f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
)


class _Transaction:
    """A transaction on its way through the writer: waiting, then running, then over."""

    __slots__ = ("args", "error", "future", "kwargs", "result", "synced", "unit")

    def __init__(self, unit: Any, args: Any, kwargs: Any, synced: bool, future: asyncio.Future[Any]) -> None:
        self.unit, self.args, self.kwargs, self.synced, self.future = unit, args, kwargs, synced, future
        self.result: Any = None
        self.error: BaseException | None = None


class SqliteDatabase:
    """A `Database` in one SQLite file, which several processes of one machine may share (WAL)."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: str, prepare: Callable[[sqlite3.Connection], None] | None = None) -> None:
        self.path = path
        self._prepare = prepare
        """Called with the migrated connection, in the transaction of the first migration."""
        self._queue: SimpleQueue[_Transaction | None] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._is_migrated = False
        self._readers: ThreadPoolExecutor | None = None
        self._idle_readers: list[sqlite3.Connection] = []
        self._listeners: dict[str, list[Callable[[], object]]] = {}
        self._closing: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """See `Database.open`."""
        await self.write(_nothing)

    async def read(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.read`."""
        if not self._is_migrated:  # the writer creates the file and its tables, or refuses it
            await self.open()
        self._check_open()
        if self._readers is None:
            self._readers = ThreadPoolExecutor(READERS, "plughost-read")
        loop = asyncio.get_running_loop()
        return await _uncancelled(loop.run_in_executor(self._readers, self._read, unit, args, kwargs))

    async def write(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.write`."""
        return await self._submit(unit, args, kwargs, synced=True)

    async def write_unsynced(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.write_unsynced`."""
        return await self._submit(unit, args, kwargs, synced=False)

    def listen(self, channel: str, callback: Callable[[], object]) -> None:
        """See `Database.listen`. Only this process is heard; others share no event loop with it."""
        self._listeners.setdefault(channel, []).append(callback)

    def announce(self, channel: str) -> None:
        """See `Database.announce`."""
        for callback in self._listeners.get(channel, ()):
            callback()

    async def backup(self, path: str) -> None:
        """Copies the database into a new file while it is used: one consistent moment of it."""
        await self.open()
        await _uncancelled(asyncio.get_running_loop().run_in_executor(None, self._backup, path))

    async def close(self) -> None:
        """See `Database.close`."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().run_in_executor(None, self._end_threads)
        await asyncio.shield(self._closing)

    async def _submit(self, unit: Any, args: Any, kwargs: Any, *, synced: bool) -> Any:
        self._check_open()
        transaction = _Transaction(unit, args, kwargs, synced, asyncio.get_running_loop().create_future())
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="plughost-write", daemon=True)
            self._writer.start()
        self._queue.put(transaction)
        return await _uncancelled(transaction.future)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Stopped("the host is closed")

    # The writer's thread

    def _write_all(self) -> None:
        connection: sqlite3.Connection | None = None
        is_synced, ending = True, False
        while not ending:
            taken = [self._queue.get()]
            while not self._queue.empty() and len(taken) < MAX_TOGETHER:
                taken.append(self._queue.get_nowait())
            ending = None in taken
            waiting: Sequence[_Transaction] = [each for each in taken if each is not None]
            while waiting:
                done = waiting
                try:
                    if connection is None:
                        connection = self._connect()
                    synced = any(each.synced for each in waiting)
                    if synced != is_synced:
                        connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
                        is_synced = synced
                    done = self._commit_together(connection, waiting)
                except BaseException as error:  # nothing of them is stored
                    for each in waiting:
                        each.error = self._typed(error)
                _resolve_all(done)
                waiting = waiting[len(done) :]
        if connection is not None:
            connection.close()

    def _commit_together(
        self, connection: sqlite3.Connection, waiting: Sequence[_Transaction]
    ) -> Sequence[_Transaction]:
        """Commits the first of those that wait, as many as fit into a short time, and returns these."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            end, count = time.monotonic() + MAX_TOGETHER_SECONDS, 0
            while count < len(waiting) and (count == 0 or time.monotonic() < end):
                self._execute(connection, waiting[count], alone=len(waiting) == 1)
                count += 1
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return waiting[:count]

    def _execute(self, connection: sqlite3.Connection, transaction: _Transaction, alone: bool) -> None:
        """Executes one of the transactions that share a commit. Raises only if all of them are lost."""
        unit = transaction.unit
        if alone or isinstance(unit, Query):  # a single statement has either effect or none
            saved = False
        else:
            connection.execute("SAVEPOINT one")
            saved = True
        try:
            transaction.result = _run(connection, unit, transaction.args, transaction.kwargs)
        except BaseException as error:
            if alone or not connection.in_transaction:  # some errors roll back everything by themselves
                raise
            transaction.error = self._typed(error)
            if saved:
                connection.execute("ROLLBACK TO one")
        if saved:
            connection.execute("RELEASE one")

    def _connect(self) -> sqlite3.Connection:
        create_private(self.path)
        connection = self._open_connection()
        try:
            retry_while_busy(lambda: self._migrate(connection), BUSY_TIMEOUT)
        except BaseException:
            connection.close()
            raise
        self._is_migrated = True
        return connection

    def _open_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        pending(
            "sqlite", _version(connection), self.path
        )  # a newer file is refused before anything is changed
        for setting in _SETTINGS:
            connection.execute(setting).fetchall()
        while pending("sqlite", _version(connection), self.path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                version = _version(connection)
                if lacking := pending("sqlite", version, self.path):  # else another process was faster
                    for statement in lacking[0].statements:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {version + 1}")
                    if version == 0 and self._prepare is not None:
                        self._prepare(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    # The readers' threads

    def _read(self, unit: Any, args: Any, kwargs: Any) -> Any:
        try:
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = self._open_connection()
                connection.execute("PRAGMA query_only = ON")
            try:
                if isinstance(unit, Query):
                    return _run(connection, unit, args, kwargs)
                connection.execute("BEGIN")
                try:
                    return _run(connection, unit, args, kwargs)
                finally:
                    connection.execute("ROLLBACK")
            finally:
                self._idle_readers.append(connection)
        except Exception as error:
            raise self._typed(error) from None

    def _backup(self, path: str) -> None:
        create_private(path, exclusive=True)
        try:
            source, target = self._open_connection(), sqlite3.connect(path)
            try:
                # One snapshot for all steps: else each commit of another process would start the copy anew.
                source.execute("BEGIN")
                source.execute("SELECT 1 FROM meta").fetchone()
                source.backup(target, pages=1024)
                target.execute("PRAGMA journal_mode = DELETE").fetchall()
            finally:
                target.close()
                source.close()
        except sqlite3.Error as error:
            raise self._typed(error) from error

    def _end_threads(self) -> None:
        if self._writer is not None:
            self._queue.put(None)
            self._writer.join()
        if self._readers is not None:
            self._readers.shutdown()
        for connection in self._idle_readers:
            connection.close()
        self._idle_readers.clear()

    def _typed(self, error: BaseException) -> BaseException:
        if not isinstance(error, sqlite3.Error | OSError):
            return error
        typed: DatabaseUnavailable
        if _refuses_value(error):
            typed = ValueRefused(f"{self.path} refuses a value: {error}")
        else:
            typed = DatabaseUnavailable(
                f"{self.path} cannot be used: {error}", hint="check its owner, and which program has it open"
            )
        typed.__cause__ = error
        return typed


def _refuses_value(error: Exception) -> bool:
    return isinstance(error, sqlite3.IntegrityError | sqlite3.DataError) or "malformed JSON" in str(error)


def _nothing() -> Any:
    yield from ()


def _run(connection: sqlite3.Connection, unit: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(unit, Query | Batch):
        return _execute_query(connection, unit)
    steps = unit(*args, **kwargs)
    result: Result | None = None
    try:
        while True:
            result = _execute_query(connection, steps.send(result))
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()


def _execute_query(connection: sqlite3.Connection, query: Query | Batch) -> Result:
    text, returns_rows = query.statement.sqlite, query.statement.returns_rows
    if isinstance(query, Query):
        cursor = connection.execute(text, _bindable(query.values))
        if returns_rows:
            rows = cursor.fetchall()
            return Result(rows, len(rows))
        return Result((), cursor.rowcount)
    if returns_rows:
        rows = [
            row for values in query.values for row in connection.execute(text, _bindable(values)).fetchall()
        ]
        return Result(rows, len(rows))
    return Result((), connection.executemany(text, map(_bindable, query.values)).rowcount)


def _bindable(values: dict[str, Any]) -> dict[str, Any]:
    """Lists become JSON, which statements unpack with json_each."""
    if any(type(value) is list for value in values.values()):
        return {
            name: msgspec.json.encode(value).decode() if type(value) is list else value
            for name, value in values.items()
        }
    return values


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _resolve_all(transactions: Sequence[_Transaction]) -> None:
    """Hands the results over to the event loops of the callers, in one step for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Transaction]] = {}
    for each in transactions:
        by_loop.setdefault(each.future.get_loop(), []).append(each)
    for loop, its in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, its)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more


def _resolve(transactions: Sequence[_Transaction]) -> None:
    for each in transactions:
        if each.future.done():
            continue
        if each.error is not None:
            each.future.set_exception(each.error)
            each.future.exception()  # a caller that was cancelled does not ask for it
        else:
            each.future.set_result(each.result)


async def _uncancelled(future: asyncio.Future[Any]) -> Any:
    """Awaits a future; a caller that is cancelled is released only when the work is over."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
