"""KeyValueDatabase: one plugin's keys and values in a SQLite file. Everything here blocks; one thread at a
time uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from plughost._util.sqlite import sqlite_code, transaction
from plughost.errors import Overloaded, PluginError
from plughost.services.storage.messages import (
    Answer,
    Deleted,
    DeleteKey,
    Found,
    Get,
    KeyPage,
    List,
    Request,
    Set,
    Stored,
)
from plughost.services.storage.sqlite_file import BUSY_TIMEOUT, open_storage

Outcome = Answer | PluginError


class KeyValueDatabase:
    """A key-value database with a quota. The file is opened at the first request, and again after an error,
    so that a repaired file is used at once."""

    def __init__(self, path: str, quota: int, owner: str | None = None) -> None:
        self._path = path
        self._quota = quota
        self._owner = owner
        """The plugin's folder: a file that belongs to another plugin of the same name is not opened."""
        self._connection: sqlite3.Connection | None = None
        self._used = 0
        """Bytes of all keys and values, within a transaction."""

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Run requests; the outcome of each, in order. All writes are committed when this returns."""
        try:
            connection = self._open()
        except (sqlite3.Error, OSError, PluginError) as error:
            return [self._as_plugin_error(error) for _ in requests]
        if len(requests) > 1 and any(_writes(request) for request in requests):
            try:
                return self._run_in_transaction(connection, requests)
            except sqlite3.Error as error:
                if sqlite_code(error) == sqlite3.SQLITE_BUSY:  # waiting again for each takes long
                    return [
                        self._as_plugin_error(error) if _writes(request) else self._run_single(request)
                        for request in requests
                    ]
        # One by one, so that an error of one does not affect the others.
        return [self._run_single(request) for request in requests]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error:
                pass  # commits are in the write-ahead log, which the next open recovers

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_storage(self._path, self._owner)
        return self._connection

    def _run_single(self, request: Request) -> Outcome:
        try:
            connection = self._open()
            if _writes(request):
                return self._run_in_transaction(connection, [request])[0]
            return self._answer(connection, request)
        except (sqlite3.Error, OSError, PluginError) as error:
            return self._as_plugin_error(error)

    def _run_in_transaction(
        self, connection: sqlite3.Connection, requests: Sequence[Request]
    ) -> list[Outcome]:
        """Run requests in one transaction, and so with one sync to the disk."""
        with transaction(connection):
            (before,) = connection.execute("SELECT bytes FROM usage").fetchone()
            self._used = before
            outcomes = [self._outcome(connection, request) for request in requests]
            if self._used != before:
                connection.execute("UPDATE usage SET bytes = ?", (self._used,))
        return outcomes

    def _outcome(self, connection: sqlite3.Connection, request: Request) -> Outcome:
        try:
            return self._answer(connection, request)
        except Overloaded as error:  # nothing was written yet
            return error

    def _answer(self, connection: sqlite3.Connection, request: Request) -> Answer:
        match request:
            case Get(key):
                row = connection.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
                return Found(None, False) if row is None else Found(msgspec.Raw(row[0]), True)
            case Set(key, value):
                self._set(connection, key, value)
                return Stored()
            case DeleteKey(key):
                return Deleted(self._delete(connection, key))
            case List(first, after, end, limit):
                keys = connection.execute(
                    "SELECT key FROM entries WHERE key >= ? AND key < ? AND key != ? ORDER BY key LIMIT ?",
                    (first, end, after, limit + 1),
                ).fetchall()
                return KeyPage([key.decode() for (key,) in keys[:limit]], len(keys) > limit)

    def _set(self, connection: sqlite3.Connection, key: bytes, value: bytes) -> None:
        before = _size(connection, key)
        size = len(key) + len(value)
        if size > before and self._used - before + size > self._quota:
            raise Overloaded(
                f"{size} bytes are over the plugin's quota:"
                f" its other keys and values use {self._used - before} of {self._quota}"
            )
        connection.execute(
            "INSERT INTO entries VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )
        self._used += size - before

    def _delete(self, connection: sqlite3.Connection, key: bytes) -> bool:
        before = _size(connection, key)
        connection.execute("DELETE FROM entries WHERE key = ?", (key,))
        self._used -= before
        return before > 0

    def _as_plugin_error(self, error: Exception) -> PluginError:
        """Convert an error for the plugin and its operator. After a serious error the file is closed."""
        code = sqlite_code(error)
        if isinstance(error, Overloaded):
            return error
        if code == sqlite3.SQLITE_BUSY:
            return Overloaded(
                f"another program has kept {self._path} locked for {BUSY_TIMEOUT:g} s",
                hint="try again; if that does not help, find out which program has the file open",
            )
        if code == sqlite3.SQLITE_FULL:
            return Overloaded(
                f"{self._path} cannot grow: the disk is full, or the file has reached its maximum size",
                hint="free disk space, or delete keys",
            )
        self.close()
        if isinstance(error, PluginError):
            return error.copy()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return PluginError(
                f"the storage in {self._path} is damaged: {error}",
                hint="nothing was deleted: move the file and its -wal and -shm files away;"
                " then restore a backup, or start empty",
            )
        return PluginError(
            f"the storage in {self._path} failed: {error}", hint="check the file, its folder and its disk"
        )


def _size(connection: sqlite3.Connection, key: bytes) -> int:
    """Bytes of a key and its value; 0 when the key does not exist."""
    row = connection.execute("SELECT length(value) FROM entries WHERE key = ?", (key,)).fetchone()
    return 0 if row is None else len(key) + int(row[0])


def _writes(request: Request) -> bool:
    return isinstance(request, Set | DeleteKey)
