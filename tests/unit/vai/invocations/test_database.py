"""SQLite files: used from many tasks at once, and brought from any earlier version to the newest."""

import asyncio
import gc
from pathlib import Path

import pytest

from plughost import HostFailed
from plughost.vai.records import database as records
from plughost.vai.sqlite import SqliteDatabase, open_shared_database
from plughost.vai.state import database as state
from plughost.vai.state import deliveries

TABLES = ("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, word)",)


async def test_one_statement_from_many_tasks(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "numbers.db"), [TABLES])

    async def write(start: int) -> None:
        for number in range(start, start + 50):
            assert await database.run("INSERT INTO numbers VALUES (?, ?)", (number, "word")) == 1
            await database.do(
                lambda connection: connection.executemany("UPDATE numbers SET word = ?", [("x",)]).rowcount
            )
            gc.collect(0)

    await asyncio.gather(*(write(start) for start in range(0, 400, 50)))
    assert (
        await database.do(lambda connection: connection.execute("SELECT count(*) FROM numbers").fetchone()[0])
        == 400
    )
    database.close()


NEXT = ("CREATE TABLE another (number)", "ALTER TABLE another ADD COLUMN word NOT NULL DEFAULT ''")


@pytest.mark.parametrize("module", [deliveries, state, records])
def test_a_file_of_every_earlier_version_gets_the_migrations_that_it_lacks_and_no_other(module, tmp_path):
    migrations = (*module.MIGRATIONS, NEXT)
    schemas = set()
    for written in range(len(migrations) + 1):
        path = str(tmp_path / f"{written}.db")
        open_shared_database(path, migrations[:written]).close()
        for _ in range(2):
            connection = open_shared_database(path, migrations)
            assert connection.execute("PRAGMA user_version").fetchone()[0] == len(migrations)
            schema = connection.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
            schemas.add(tuple(row[0] for row in schema))
            connection.close()
    assert len(schemas) == 1


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = str(tmp_path / "numbers.db")
    open_shared_database(path, [TABLES]).close()
    with pytest.raises(HostFailed, match="syntax error"):
        open_shared_database(path, [TABLES, NEXT, ("ALTER nothing",)])
    connection = open_shared_database(path, [TABLES, NEXT])
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 2
    connection.close()


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    path = str(tmp_path / "numbers.db")
    open_shared_database(path, [TABLES, NEXT]).close()
    with pytest.raises(HostFailed, match="newer plughost: its version is 2, and this plughost supports 1"):
        open_shared_database(path, [TABLES])
