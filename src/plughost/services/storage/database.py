"""One plugin's keys and values in one SQLite file. Everything here blocks; one thread at a time uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

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
from plughost.services.storage.sqlite_file import PATIENCE, code_of, open_database, transaction

Outcome = Answer | PluginError


class KeyValueDatabase:
    """Opened at the first request, and anew after trouble, so that a mended file is taken at once."""

    def __init__(self, path: str, quota: int, owner: str | None = None) -> None:
        self._path = path
        self._quota = quota
        self._owner = owner
        """The plugin's folder: a file that was made for another plugin of its name is not opened."""
        self._connection: sqlite3.Connection | None = None
        self._used = 0
        """Bytes of all keys and values, within a transaction."""

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """The outcome of each, in order; all that is written is committed when this returns."""
        try:
            connection = self._opened()
        except (sqlite3.Error, OSError, PluginError) as error:
            return [self._told(error) for _ in requests]
        if len(requests) > 1 and any(_writes(request) for request in requests):
            try:
                return self._together(connection, requests)
            except sqlite3.Error as error:
                if code_of(error) == sqlite3.SQLITE_BUSY:  # to wait for each anew would take long
                    return [
                        self._told(error) if _writes(request) else self._alone(request)
                        for request in requests
                    ]
        # What one of them meets is not told of the others.
        return [self._alone(request) for request in requests]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error:
                pass  # what is committed is in the log, and whoever opens the file next brings it home

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_database(self._path, self._owner)
        return self._connection

    def _alone(self, request: Request) -> Outcome:
        try:
            connection = self._opened()
            if _writes(request):
                return self._together(connection, [request])[0]
            return self._answer(connection, request)
        except (sqlite3.Error, OSError, PluginError) as error:
            return self._told(error)

    def _together(self, connection: sqlite3.Connection, requests: Sequence[Request]) -> list[Outcome]:
        """In one transaction, so with one sync."""
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

    def _told(self, error: Exception) -> PluginError:
        """In words for the plugin and its operator; after real trouble the file is let go."""
        code = code_of(error)
        if isinstance(error, Overloaded):
            return error
        if code == sqlite3.SQLITE_BUSY:
            return Overloaded(
                f"another program has kept {self._path} locked for {PATIENCE:g} s",
                hint="try again; if it stays so, see which program has the file open",
            )
        if code == sqlite3.SQLITE_FULL:
            return Overloaded(f"no room for {self._path}", hint="make room on the disk, or delete keys")
        self.close()
        if isinstance(error, PluginError):
            return error.copy()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return PluginError(
                f"the storage in {self._path} is damaged: {error}",
                hint="nothing was deleted: move the file, and those with -wal and -shm, away;"
                " then put a backup in its place, or start empty",
            )
        return PluginError(
            f"the storage in {self._path} failed: {error}", hint="see to the file, its folder and its disk"
        )


def _size(connection: sqlite3.Connection, key: bytes) -> int:
    """Bytes that a key and its value take up; 0 when it is not there."""
    row = connection.execute("SELECT length(value) FROM entries WHERE key = ?", (key,)).fetchone()
    return 0 if row is None else len(key) + int(row[0])


def _writes(request: Request) -> bool:
    return isinstance(request, Set | DeleteKey)
