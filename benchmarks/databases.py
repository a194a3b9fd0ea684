"""The databases that measures of vai run on: a file of SQLite, and a PostgreSQL server of our own."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.postgres import programs, server

from benchmarks.paths import HERE
from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
DATABASES = (SQLITE, *((POSTGRESQL,) if programs() else ()))
"""Those that this machine has."""
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
"""As an installed server has it; servers of tests do without."""


class Place(NamedTuple):
    """Where a database is, as the runtime is told."""

    folder: str
    url: str | None = None

    def database(self) -> Database:
        return open_database(self.folder, self.url)


@contextmanager
def databases(prefix: str) -> Iterator[dict[str, Callable[[], Place]]]:
    """By the name of each database, a function that creates an empty one."""
    with ExitStack() as stack:
        # /tmp may not be a disk
        root = stack.enter_context(tempfile.TemporaryDirectory(dir=HERE, prefix=f".{prefix}-"))
        numbers = itertools.count()

        def sqlite() -> Place:
            folder = Path(root) / str(next(numbers))
            folder.mkdir()
            return Place(str(folder))

        new = {SQLITE: sqlite}
        if POSTGRESQL in DATABASES:
            running = stack.enter_context(server(DURABLE))
            new[POSTGRESQL] = lambda: Place(sqlite().folder, asyncio.run(running.create()))
        yield new
