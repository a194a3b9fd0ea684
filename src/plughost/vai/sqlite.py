"""How this layer's SQLite files are opened: for their owner, shared by processes, with tables we know."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from plughost.errors import HostFailed, PluginError, Stopped
from plughost.services.storage.sqlite_file import transaction

__all__ = ["SqliteDatabase", "open_shared_database", "transaction"]

T = TypeVar("T")

LARGEST_LOG = 4 << 20
"""Bytes that SQLite's own log keeps when it has been taken into the file."""
PATIENCE = 10.0
"""Seconds to wait for another process that writes."""


def open_shared_database(
    path: str, version: int, tables: Iterable[str], *, synchronous: str = "FULL"
) -> sqlite3.Connection:
    """Made when it is missing. `tables` are statements that may run again."""
    try:
        return _opened(path, version, tables, synchronous)
    except (OSError, sqlite3.Error) as error:
        raise HostFailed(
            f"{path} cannot be used: {error}", hint="see whose it is, and which program holds it"
        ) from error


def _opened(path: str, version: int, tables: Iterable[str], synchronous: str) -> sqlite3.Connection:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        os.mknod(path, 0o600)  # not by open(): closing it would end the locks of others in this process
    except FileExistsError:
        pass
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; what is removed can shrink it
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        with transaction(connection):
            written: int = connection.execute("PRAGMA user_version").fetchone()[0]
            if written > version:
                raise PluginError(f"{path} is a newer plughost's", hint="use that one; nothing was changed")
            for statement in tables if written < version else ():
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        connection.close()
        raise
    return connection


class SqliteDatabase:
    """One file used from the event loop: opened at the first use, one transaction at a time in a thread."""

    def __init__(self, path: str, version: int, tables: Iterable[str]) -> None:
        self._path = path
        self._version = version
        self._tables = tuple(tables)
        self._connection: sqlite3.Connection | None = None
        self._one_at_a_time = threading.Lock()
        self._closed = False

    async def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows one statement has changed, committed."""
        return await self.do(lambda connection: connection.execute(statement, values).rowcount)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, committed; nothing of it when it raises.

        Never a cursor: it would end in another thread, in the middle of whatever uses its statement next.
        """
        done = asyncio.get_running_loop().run_in_executor(None, self._alone, work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])  # whoever goes on from here finds it done or undone
            raise

    def close(self) -> None:
        with self._one_at_a_time:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._one_at_a_time:
            if self._closed:
                raise Stopped("the host is closed")
            if self._connection is None:
                self._connection = open_shared_database(self._path, self._version, self._tables)
            with transaction(self._connection):
                result = work(self._connection)
                assert not isinstance(result, sqlite3.Cursor)
                return result
