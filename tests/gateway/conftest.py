"""The gateway's tests run on both databases, as those of vai do."""

from tests.vai.conftest import database, database_url, postgres, runtime_url

__all__ = ["database", "database_url", "postgres", "runtime_url"]
