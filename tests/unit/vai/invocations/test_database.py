"""Files used from many tasks at once: statements that meet do not disturb each other."""

import asyncio
import gc
from pathlib import Path

from plughost.vai.sqlite import SqliteDatabase

TABLES = ("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, word)",)


async def test_one_statement_from_many_tasks(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "numbers.db"), 1, TABLES)

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
