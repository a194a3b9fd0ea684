"""The SQLite file of a plugin's storage: private, durable (WAL, synchronous), bounded."""

from __future__ import annotations

import os
import sqlite3

from plughost._util import data_owner, sqlite
from plughost.errors import HostFailed

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
MIGRATIONS = (
    (
        # Keys are bytes: text would end at a NUL for half of SQLite. A table with row ids keeps large values
        # out of the index that listings walk.
        "CREATE TABLE entries (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)",
        "CREATE TABLE usage (bytes INTEGER NOT NULL)",
        "INSERT INTO usage VALUES (0)",
    ),
)


def open_storage(path: str, owner: str | None = None) -> sqlite3.Connection:
    """Open the file, or create it for `owner`. Raises OSError, sqlite3.Error, or HostFailed for a file of a
    newer version or of another owner."""
    if owner is not None:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        try:
            data_owner.claim(path, owner)
        except data_owner.NotOwner as error:
            raise HostFailed(f"its storage cannot be used: {error}", hint=data_owner.REMEDY) from error
    return sqlite.open_database(path, MIGRATIONS, settings=SETTINGS, busy_timeout=BUSY_TIMEOUT)
