"""SQLite files of vai: opened for their owner only, shared by several processes (WAL), with schema
migrations."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from plughost._util.sqlite import Migrations, open_database, transaction
from plughost.errors import HostFailed, Stopped

__all__ = ["SqliteDatabase", "open_shared_database", "transaction"]

T = TypeVar("T")

MAX_WAL_BYTES = 4 << 20
"""Bytes to which SQLite truncates its write-ahead log after a checkpoint."""
BUSY_TIMEOUT = 10.0
"""Busy timeout: seconds to wait for another process that writes."""


def open_shared_database(
    path: str, migrations: Migrations, *, synchronous: str = "FULL"
) -> sqlite3.Connection:
    """Opens a SQLite file, and creates it when it is missing. Each of `migrations` runs once in a file: an
    older file gets those that it lacks."""
    try:
        connection = open_database(
            path,
            migrations,
            settings=(
                "PRAGMA auto_vacuum = INCREMENTAL",  # effective for a new file only
                "PRAGMA journal_mode = WAL",
                f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}",
                f"PRAGMA synchronous = {synchronous}",
            ),
            busy_timeout=BUSY_TIMEOUT,
        )
    except (OSError, sqlite3.Error) as error:
        raise HostFailed(
            f"{path} cannot be used: {error}", hint="check its owner, and which program has it open"
        ) from error
    connection.row_factory = sqlite3.Row
    return connection


class SqliteDatabase:
    """An asyncio front for one SQLite file: opened at first use, one transaction at a time, in a thread."""

    def __init__(self, path: str, migrations: Migrations) -> None:
        self._path = path
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Runs one statement in a transaction of its own. Returns the number of rows that it changed."""
        return await self.do(lambda connection: connection.execute(statement, values).rowcount)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in one transaction and returns its result; rolled back when `work` raises.

        `work` must not return a cursor: it would be closed in another thread, while its statement is in use
        again.
        """
        done = asyncio.get_running_loop().run_in_executor(None, self._run_locked, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])  # so that the transaction has ended, either way, for the caller
            raise

    def close(self) -> None:
        """Closes the file; later transactions fail with Stopped."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _run_locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise Stopped("the host is closed")
            if self._connection is None:
                self._connection = open_shared_database(self._path, self._migrations)
            with transaction(self._connection):
                result = work(self._connection)
                assert not isinstance(result, sqlite3.Cursor)
                return result
