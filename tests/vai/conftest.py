"""Both databases: tests that take `database_url` run on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database
from tests.support.postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a worker."""
    with server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
async def database_url(request: pytest.FixtureRequest) -> str | None:
    """A new database: None for SQLite in the test's folder, else the URL of one on the server."""
    if request.param == "sqlite":
        return None
    running: Server = request.getfixturevalue("postgres")
    return await running.create()


@pytest.fixture
async def runtime_url(request: pytest.FixtureRequest) -> str | None:
    """The database of runtimes: SQLite, or PostgreSQL where the environment says PLUGHOST_TEST_DATABASE=postgresql
    (`make e2e`)."""
    if os.environ.get("PLUGHOST_TEST_DATABASE") != "postgresql":
        return None
    running: Server = request.getfixturevalue("postgres")
    return await running.create()


@pytest.fixture
async def database(tmp_path: Path, database_url: str | None):
    opened: Database = open_database(str(tmp_path), database_url)
    yield opened
    await opened.close()
