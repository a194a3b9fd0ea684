"""Opens the database that a URL or a folder names."""

from __future__ import annotations

import os
from importlib.util import find_spec

from plughost.errors import InvalidSpec
from plughost.vai.database.database import Database

FILE = "vai.db"


def open_database(folder: str, url: str | None = None) -> Database:
    """The database of a folder, or the server of a `postgresql://` URL. Nothing is connected before its first
    use."""
    if url is None:
        from plughost.vai.database.legacy import taking_over
        from plughost.vai.database.sqlite import SqliteDatabase

        return SqliteDatabase(os.path.join(folder, FILE), taking_over(folder))
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidSpec("the database URL must begin with postgresql://")
    if find_spec("asyncpg") is None:
        raise InvalidSpec("PostgreSQL needs the package asyncpg", hint="pip install 'plughost[postgresql]'")
    from plughost.vai.database.postgresql import PostgresDatabase

    return PostgresDatabase(url)
