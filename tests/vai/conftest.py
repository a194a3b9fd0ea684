"""Both databases: tests that take `database_url` run on SQLite and on PostgreSQL."""

from tests.support.databases import database, database_url, postgres, runtime_url

__all__ = ["database", "database_url", "postgres", "runtime_url"]
