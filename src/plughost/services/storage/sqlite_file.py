"""How a plugin's storage is opened: private, durable, and with tables of the version we know."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from plughost._util import data_owner
from plughost.errors import HostFailed, PluginError

VERSION = 1
"""Of the tables, in the file as `PRAGMA user_version`."""
PATIENCE = 5.0
"""Seconds to wait for another program that writes to the same file."""
PAGE_SIZE = 4096
LARGEST_FILE = 256 << 20
"""However the keys and values lie in it: millions of tiny ones take up more than their bytes."""

SETTINGS = (
    # A log that is synced at every commit. Where there can be none, commits are as durable, and slower.
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA cache_size = -512",  # KiB; many files may be open
    f"PRAGMA journal_size_limit = {4 << 20}",
    f"PRAGMA max_page_count = {LARGEST_FILE // PAGE_SIZE}",
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
    """Made when it is missing, for `owner`. OSError, sqlite3.Error, or PluginError for one of a newer version
    and for one that is another's."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if owner is not None:
        try:
            data_owner.claim(path, owner)
        except data_owner.NotOwner as error:
            raise HostFailed(f"its storage cannot be used: {error}", hint=data_owner.REMEDY) from error
    try:
        # Not by open(): to close any descriptor of a file ends the locks of whoever else has it open here.
        os.mknod(path, 0o600)
    except FileExistsError:
        pass
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _patiently(lambda: _prepare(connection, path))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """For writing; committed when it is left, and undone by any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have undone it already
            connection.execute("ROLLBACK")
        raise


def code_of(error: Exception) -> int:
    """SQLite's own code without the finer ones above the first byte; 0 when it is not SQLite's error."""
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


def _patiently(attempt: Callable[[], None]) -> None:
    """While another host opens the same file, some steps are refused at once, whatever the timeout."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.005)
