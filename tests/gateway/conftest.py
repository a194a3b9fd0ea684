"""Databases of the gateway's tests.

Tests about several processes run on both databases. All others run on SQLite, and on PostgreSQL where the
environment says PLUGHOST_TEST_DATABASE=postgresql (`make e2e`).
"""

import os

import pytest

from tests.support.postgres import Server
from tests.vai.conftest import database, postgres

__all__ = ["database", "postgres"]

ON_BOTH = ("test_idempotency", "test_live_bindings", "test_table", "test_rotation", "test_store")


@pytest.fixture
async def database_url(request: pytest.FixtureRequest) -> str | None:
    """A new database: None for SQLite in the test's folder, else the URL of one on the server."""
    if request.param == "sqlite":
        return None
    running: Server = request.getfixturevalue("postgres")
    return await running.create()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_url" not in metafunc.fixturenames:
        return
    if os.environ.get("PLUGHOST_TEST_DATABASE") == "postgresql":
        names = ["postgresql"]
    elif metafunc.module.__name__.rpartition(".")[2] in ON_BOTH:
        names = ["sqlite", "postgresql"]
    else:
        names = ["sqlite"]
    metafunc.parametrize("database_url", names, indirect=True)
