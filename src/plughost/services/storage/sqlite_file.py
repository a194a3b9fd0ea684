"""Opens the SQLite file of a plugin's storage: private, durable (WAL, synchronous), with a known table
version."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from plughost._util import data_owner
from plughost.errors import HostFailed, PluginError

VERSION = 1
"""Version of the tables, stored as `PRAGMA user_version`."""
BUSY_TIMEOUT = 5.0
"""Seconds to wait for another program that writes to the same file."""
PAGE_SIZE = 4096
MAX_FILE = 256 << 20
"""Limit of the file in bytes: millions of tiny values take up more than their own bytes."""

SETTINGS = (
    # A write-ahead log that is synced at every commit. Where WAL is not possible, commits are slower.
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -512",  # KiB; many files may be open
    f"PRAGMA journal_size_limit = {4 << 20}",
    f"PRAGMA max_page_count = {MAX_FILE // PAGE_SIZE}",
)
TABLES = (
    # Keys are bytes: text would end at a NUL for half of SQLite. A table with row ids keeps large values out
    # of the index that listings walk.
    "CREATE TABLE entries (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)",
    "CREATE TABLE usage (bytes INTEGER NOT NULL)",
    "INSERT INTO usage VALUES (0)",
    f"PRAGMA user_version = {VERSION}",
)


def open_database(path: str, owner: str | None = None) -> sqlite3.Connection:
    """Open the file, or create it for `owner`. Raises OSError, sqlite3.Error, or PluginError for a file of a
    newer version or of another owner."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if owner is not None:
        try:
            data_owner.claim(path, owner)
        except data_owner.NotOwner as error:
            raise HostFailed(f"its storage cannot be used: {error}", hint=data_owner.REMEDY) from error
    try:
        # Not by open(): closing any descriptor of a file drops all locks that this process has on it (POSIX).
        os.mknod(path, 0o600)
    except FileExistsError:
        pass
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        _retry_while_busy(lambda: _prepare(connection, path))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A write transaction: committed at the end, rolled back by any exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors roll back by themselves
            connection.execute("ROLLBACK")
        raise


def sqlite_code(error: Exception) -> int:
    """The primary result code of SQLite, without the extended one; 0 for other errors."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    _check_version(connection, path)  # before anything is changed
    for setting in SETTINGS:
        connection.execute(setting)
    if _check_version(connection, path) < VERSION:
        with transaction(connection):
            if _check_version(connection, path) < VERSION:  # another host may have been here meanwhile
                for statement in TABLES:
                    connection.execute(statement)


def _check_version(connection: sqlite3.Connection, path: str) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise PluginError(
            f"{path} was written by a newer plughost: its version is {version}, known is {VERSION}",
            hint="use that plughost; nothing was changed",
        )
    return version


def _retry_while_busy(attempt: Callable[[], None]) -> None:
    """Retry while the file is busy: while another host opens it, some statements fail at once, whatever the
    timeout."""
    end = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.005)
