"""Opens SQLite files: private, shared by several processes, with schema migrations."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from plughost.errors import HostFailed

Migrations = Sequence[Sequence[str]]
"""The statements that make each version of a schema from the one before; the first ones make version 1."""


def open_database(
    path: str, migrations: Migrations, *, settings: Sequence[str], busy_timeout: float
) -> sqlite3.Connection:
    """Open a file, or create it for its owner only. `settings` are statements for this connection. Each of
    `migrations` runs once in a file: an older file gets those that it lacks.

    Raises OSError, sqlite3.Error, or HostFailed for a file of a newer version, which is not changed.
    """
    create_private(path)
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
    try:
        retry_while_busy(lambda: _prepare(connection, path, migrations, settings), busy_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def create_private(path: str, *, exclusive: bool = False) -> None:
    """Create an empty file for its owner only, and its folder. An existing one is kept, or refused where it
    must be `exclusive`."""
    os.makedirs(os.path.dirname(path) or ".", 0o700, exist_ok=True)
    try:
        # Not by open(): closing any descriptor of a file drops all locks that this process has on it (POSIX).
        os.mknod(path, 0o600)
    except FileExistsError:
        if exclusive:
            raise


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


def _prepare(
    connection: sqlite3.Connection, path: str, migrations: Migrations, settings: Sequence[str]
) -> None:
    latest = len(migrations)
    _version(connection, path, latest)  # before anything is changed
    for setting in settings:
        connection.execute(setting)
    if _version(connection, path, latest) < latest:
        with transaction(connection):
            # Another process may have been here meanwhile.
            for statements in migrations[_version(connection, path, latest) :]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {latest}")


def _version(connection: sqlite3.Connection, path: str, latest: int) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > latest:
        raise HostFailed(
            f"{path} was written by a newer plughost: its version is {version}, and this plughost "
            f"supports {latest}",
            hint="use the newer plughost; the file was not changed",
        )
    return version


def retry_while_busy(attempt: Callable[[], None], longest: float) -> None:
    """Retry while the file is busy: while another process opens it, some statements fail at once, whatever
    the timeout."""
    end = time.monotonic() + longest
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            if sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.005)
