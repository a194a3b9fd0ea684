"""An export has every row as it is, and an import stores all of it or nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database
from plughost.vai.database.statements import statement
from plughost.vai.maintenance import transfer
from plughost.vai.maintenance.export_file import TableDigest
from plughost.vai.maintenance.tables import TABLES, Table
from plughost.vai.maintenance.transfer import export_database, import_database
from plughost.vai.state.delivery_table import INSERT
from plughost.vai.state.leases import ACQUIRE
from plughost.vai.state.outbox import INSERT_HANDLED
from tests.support.postgres import Server
from tests.support.records import blocking
from tests.vai.maintenance.rows import fill, sample

Open = Callable[[str], Database]


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens SQLite databases in folders of the test."""
    opened: list[Database] = []

    def open_folder(name: str) -> Database:
        opened.append(open_database(str(tmp_path / name)))
        return opened[-1]

    yield open_folder
    for each in opened:
        await each.close()


@pytest.fixture
async def server_database(postgres: Server) -> AsyncIterator[Database]:
    opened = open_database("", await postgres.create())
    yield opened
    await opened.close()


async def rows_of(database: Database, table: Table) -> list[dict[str, Any]]:
    found = await database.read(table.first_page(limit=100_000))
    return sorted(
        ({name: row[name] for name in table.columns} for row in found.rows),
        key=lambda row: [row[name] for name in table.key],
    )


async def is_empty(database: Database) -> bool:
    return not any([await rows_of(database, table) for table in TABLES.values()])


async def test_the_tables_are_those_of_the_schema(database: Database) -> None:
    """A migration that adds a table or a column must add it to the export."""
    await database.open()
    if database.dialect == "sqlite":
        query = """SELECT t.name AS "table", c.name AS "column", c.type, c.pk AS place FROM sqlite_schema t,
            pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"""
    else:
        query = """SELECT c.table_name AS "table", c.column_name AS "column", c.data_type AS type,
            coalesce((SELECT k.ordinal_position FROM information_schema.table_constraints t
              JOIN information_schema.key_column_usage k ON k.constraint_name = t.constraint_name
              WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_name = c.table_name
                AND k.column_name = c.column_name), 0) AS place
            FROM information_schema.columns c
            WHERE c.table_schema = 'public' AND c.table_name <> 'schema_version'"""
    types = {"TEXT": str, "INTEGER": int, "BIGINT": int, "REAL": float, "DOUBLE PRECISION": float,
             "BOOLEAN": bool, "BLOB": bytes, "BYTEA": bytes}  # fmt: skip
    found: dict[str, dict[str, type]] = {}
    keys: dict[str, dict[int, str]] = {}
    for row in (await database.read(statement("columns", {None: query})())).rows:
        found.setdefault(row["table"], {})[row["column"]] = types[row["type"].upper()]
        if row["place"]:
            keys.setdefault(row["table"], {})[row["place"]] = row["column"]
    del found["leases"]
    assert found == {table.name: table.columns for table in TABLES.values()}
    for table in TABLES.values():
        assert tuple(keys[table.name][place] for place in sorted(keys[table.name])) == table.key


async def test_from_sqlite_to_postgresql_and_back_everything_is_the_same(
    tmp_path: Path, sqlite: Open, server_database: Database
) -> None:
    first, last = sqlite("first"), sqlite("last")
    rows = sample()
    assert rows.keys() == TABLES.keys()
    assert all(rows.values()), "there are rows in every table"
    await fill(first, rows)
    exports = [await export_database(first, str(tmp_path / "1"))]
    assert await import_database(str(tmp_path / "1"), server_database) == exports[0]
    exports.append(await export_database(server_database, str(tmp_path / "2")))
    assert await import_database(str(tmp_path / "2"), last) == exports[1]
    exports.append(await export_database(last, str(tmp_path / "3")))
    assert exports[0].tables == exports[1].tables == exports[2].tables
    assert {name: each.rows for name, each in exports[0].tables.items()} == {
        n: len(r) for n, r in rows.items()
    }
    for table in TABLES.values():
        expected = sorted(rows[table.name], key=lambda row, table=table: [row[name] for name in table.key])
        for database in (server_database, last):
            stored = await rows_of(database, table)
            assert stored == expected
            if database is server_database:  # SQLite has no booleans
                assert [*map(_types, stored)] == [*map(_types, expected)]


def _types(row: dict[str, Any]) -> list[type]:
    return [type(value) for value in row.values()]


async def test_a_negative_zero_of_postgresql_is_a_zero_in_sqlite(
    tmp_path: Path, sqlite: Open, server_database: Database
) -> None:
    await fill(server_database, {"signing_keys": [{"name": "n", "created_at": -0.0, "sealed": b""}]})
    footer = await export_database(server_database, str(tmp_path / "file"))
    await import_database(str(tmp_path / "file"), sqlite("copy"))
    assert (await export_database(sqlite("copy"), str(tmp_path / "file 2"))).tables == footer.tables


async def test_new_rows_get_numbers_after_the_old_ones(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    """Also after rows that were removed before the export: numbers are not used twice."""
    source = sqlite("source")
    await fill(source)
    handled = INSERT_HANDLED(org_id="o", project_id="p", event="{}", created_at=1.0)
    number = (await source.write(handled)).value()
    await source.write(statement("delete", {None: "DELETE FROM events WHERE number > 4"})())
    await export_database(source, str(tmp_path / "file"))
    await import_database(str(tmp_path / "file"), database)
    assert (await database.write(handled)).value() == number + 1
    delivery = {
        "delivery_id": "d",
        "binding_id": "x",
        "org_id": "o",
        "project_id": "",
        "event_number": 9,
        "due_at": 1.0,
    }
    await database.write(INSERT(**delivery))
    assert (await rows_of(database, TABLES["deliveries"]))[-1]["number"] == 2**53 + 3


async def test_an_empty_database_is_exported_and_imported(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    footer = await export_database(database, str(tmp_path / "file"))
    assert {*footer.tables.values()} == {TableDigest(0, "0" * 64)}
    await import_database(str(tmp_path / "file"), sqlite("other"))
    handled = INSERT_HANDLED(org_id="o", project_id="p", event="{}", created_at=1.0)
    assert (await sqlite("other").write(handled)).value() == 1


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
values = {
    str: texts,
    int: st.integers(-(2**31), 2**31 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_values_come_back_from_their_json(data: st.DataObject) -> None:
    for table in TABLES.values():
        row = {name: data.draw(st.none() | values[kind]) for name, kind in table.columns.items()}
        text = json.dumps(table.encoded(row))
        decoded = table.decoded(json.loads(text))
        assert decoded == row
        assert _types(decoded) == _types(row)


@settings(max_examples=15, deadline=None)
@given(
    runs=st.dictionaries(
        texts, st.tuples(st.floats(allow_nan=False), st.none() | st.floats(allow_nan=False))
    ),
    keys=st.dictionaries(texts, st.binary()),
)
def test_any_rows_survive_sqlite_and_postgresql(
    tmp_path_factory: pytest.TempPathFactory, postgres: Server, runs: dict[str, Any], keys: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("any")

    async def work() -> None:
        first, second = open_database(str(folder / "1")), open_database("", await postgres.create())
        try:
            tenant = {"org_id": "o", "project_id": "", "task": "", "status": "succeeded"}
            none = dict.fromkeys(TABLES["runs"].columns)
            await fill(first, {
                "runs": [{**none, **tenant, "run_id": id, "started_at": a, "ended_at": b} for id, (a, b) in runs.items()],
                "signing_keys": [{"name": n, "created_at": 1.0, "sealed": sealed} for n, sealed in keys.items()],
            })  # fmt: skip
            exported = await export_database(first, str(folder / "file"))
            await import_database(str(folder / "file"), second)
            assert (await export_database(second, str(folder / "file 2"))).tables == exported.tables
        finally:
            await first.close()
            await second.close()

    blocking(work)


async def test_an_export_is_one_moment_and_leaves_hosts_alone(
    tmp_path: Path, database: Database, sqlite: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_PAGE", 7)
    stop = asyncio.Event()
    written = 0

    async def write() -> None:
        nonlocal written
        while not stop.is_set():
            await database.write(_pair, written)
            written += 1

    task = asyncio.create_task(write())
    for number in range(3):
        known = written
        await export_database(database, str(tmp_path / f"file {number}"))
        copy = sqlite(f"copy {number}")
        await import_database(str(tmp_path / f"file {number}"), copy)
        pairs = [{row[name] for row in await rows_of(copy, TABLES[table])} for table, name in
                 (("meta", "value"), ("sessions", "title"))]  # fmt: skip
        assert pairs[0] == pairs[1], "both rows of a transaction, or none"
        assert len(pairs[0]) >= known
    stop.set()
    await task
    assert written > 3


def _pair(number: int) -> Any:
    """One transaction writes into the first table of an export and into a later one."""
    yield TABLES["sessions"].insert(session_id=f"{number:09}", org_id="o", project_id="", title=str(number))
    yield TABLES["meta"].insert(name=f"{number:09}", value=str(number))


async def test_pages_are_bounded_by_bytes(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its rows are, a page is at most a few times as long as it should be."""
    monkeypatch.setattr(transfer, "PAGE_BYTES", 10_000)
    sizes: list[int] = []
    rows = [{"invocation_id": f"{n:05}", "number": 1, "logged": "x" * 5000} for n in range(200)]
    await fill(database, {"invocation_events": rows})
    original = transfer._read

    def read(table: Table, use: Any) -> Any:
        steps, result = original(table, use), None
        while True:
            try:
                query = steps.send(result)
            except StopIteration:
                return
            result = yield query
            sizes.append(len(result.rows))

    monkeypatch.setattr(transfer, "_read", read)
    await export_database(database, str(tmp_path / "file"))
    assert max(sizes) <= 2
    assert sum(sizes) == 200


async def test_the_file_is_for_its_owner_only_and_replaces_none(tmp_path: Path, database: Database) -> None:
    old = os.umask(0)
    try:
        await export_database(database, str(tmp_path / "file"))
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(InvalidSpec, match="already exists"):
        await export_database(database, str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == before
    with pytest.raises(InvalidSpec, match="there is no folder"):
        await export_database(database, str(tmp_path / "none" / "file"))


async def test_an_export_that_fails_leaves_no_file(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(database)
    monkeypatch.setattr(transfer.ExportWriter, "finish", lambda writer: 1 / 0)
    (tmp_path / "out").mkdir()
    with pytest.raises(ZeroDivisionError):
        await export_database(database, str(tmp_path / "out" / "file"))
    assert os.listdir(tmp_path / "out") == []


async def test_only_an_empty_database_is_imported_into(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    await fill(sqlite("source"))
    await export_database(sqlite("source"), str(tmp_path / "file"))
    await fill(database, {"signing_keys": [{"name": "n", "created_at": 1.0, "sealed": b""}]})
    with pytest.raises(InvalidSpec, match="not empty: the table signing_keys has rows"):
        await import_database(str(tmp_path / "file"), database)
    assert await rows_of(database, TABLES["events"]) == []


async def test_a_database_that_a_host_uses_is_refused(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    await export_database(sqlite("source"), str(tmp_path / "file"))
    await database.write(ACQUIRE(lease="h.0", host="h", seconds=60.0))
    with pytest.raises(InvalidSpec, match="not empty: a host uses it"):
        await import_database(str(tmp_path / "file"), database)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _without_footer(data: bytes) -> bytes:
    return data[: data.rstrip().rfind(b"\n") + 1]


DEEP = b'{"a":' * 100_000

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "half of it": _cut,
    "no footer": _without_footer,
    "no last newline": lambda data: data[:-1],
    "a value": lambda data: data.replace(b'"attempt":1', b'"attempt":2', 1),
    "a space": lambda data: data.replace(b'","row":{', b'", "row":{', 1),
    "a row less": lambda data: b"".join([*data.splitlines(True)[:5], *data.splitlines(True)[6:]]),
    "a row twice": lambda data: b"".join([*data.splitlines(True)[:5], *data.splitlines(True)[4:]]),
    "two rows changed places": lambda data: b"".join(
        [*data.splitlines(True)[:4], *data.splitlines(True)[5:3:-1], *data.splitlines(True)[6:]]
    ),
    "more after its end": lambda data: data + b"\n",
    "another table": lambda data: data.replace(b'"table":"runs"', b'"table":"walks"', 1),
    "another column": lambda data: data.replace(b'"run_id":', b'"walk_id":', 1),
    "another type": lambda data: data.replace(b'"attempt":1', b'"attempt":true', 1),
    "another sequence": lambda data: data.replace(b'"deliveries":9', b'"deliveries":8', 1),
    "another digest": lambda data: data[:-6] + (b"0" if data[-6:-5] != b"0" else b"1") + data[-5:],
    "not base64": lambda data: data.replace(b'{"base64":"AAEC', b'{"base64":"AAE', 1),
    "a newer version": lambda data: data.replace(b'"version":1', b'"version":2', 1),
    "a newer schema": lambda data: data.replace(b'"schema":', b'"schema":9', 1),
    "no UTF-8 in its header": lambda data: data.replace(b'"format":"', b'"format":"\xff', 1),
    "no UTF-8 in a row": lambda data: data.replace(b'"table":"', b'"table":"\xff', 1),
    "no UTF-8 in its footer": lambda data: b'"sha256":"\xff'.join(data.rsplit(b'"sha256":"', 1)),
    "a header nested too deeply": lambda data: b'{"more":' + DEEP + data,
    "a row nested too deeply": lambda data: data.replace(b'"row":', b'"row":' + DEEP, 1),
    "a footer nested too deeply": lambda data: data.replace(b'{"tables":', b'{"tables":' + DEEP, 1),
    "nothing": lambda data: b"",
    "something else": lambda data: b"SQLite format 3\0" + data,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_was_changed_is_refused_before_anything_is_stored(
    tmp_path: Path, sqlite: Open, change: str
) -> None:
    await fill(sqlite("source"))
    await export_database(sqlite("source"), str(tmp_path / "file"))
    data = (tmp_path / "file").read_bytes()
    changed = CHANGES[change](data)
    assert changed != data
    (tmp_path / "file").write_bytes(changed)
    with pytest.raises(InvalidSpec, match=r"incomplete or was changed|is not an export|by another plughost"):
        await import_database(str(tmp_path / "file"), sqlite("target"))
    assert not (tmp_path / "target").exists(), "not even the database was created"


def test_a_number_that_no_database_can_store_is_refused() -> None:
    row = dict.fromkeys(TABLES["blocks"].columns)
    with pytest.raises(InvalidSpec, match="number is too large"):
        TABLES["blocks"].decoded({**row, "number": 1 << 63})


async def test_a_database_that_stores_something_else_stays_empty(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    await fill(sqlite("source"))
    await export_database(sqlite("source"), str(tmp_path / "file"))
    await database.open()
    if database.dialect == "sqlite":
        trigger = ["""CREATE TRIGGER wrong AFTER INSERT ON runs BEGIN
            UPDATE runs SET started_at = started_at * 1.0000000000000002 WHERE run_id = NEW.run_id; END"""]  # fmt: skip
    else:
        trigger = [
            """CREATE FUNCTION wrong() RETURNS trigger AS 'BEGIN
                NEW.started_at = NEW.started_at + 0.0000000001; RETURN NEW; END' LANGUAGE plpgsql""",
            "CREATE TRIGGER wrong BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION wrong()",
        ]
    for each in trigger:
        await database.write(statement("trigger", {None: each})())
    with pytest.raises(HostFailed, match="did not store what the file has: runs would differ"):
        await import_database(str(tmp_path / "file"), database)
    assert await is_empty(database)


async def test_a_nul_character_is_kept_by_sqlite_and_refused_for_postgresql(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    await fill(sqlite("source"), {"meta": [{"name": "a\0b", "value": "c"}]})
    await export_database(sqlite("source"), str(tmp_path / "file"))
    if database.dialect == "sqlite":
        await import_database(str(tmp_path / "file"), database)
        assert await rows_of(database, TABLES["meta"]) == [{"name": "a\0b", "value": "c"}]
    else:
        with pytest.raises(InvalidSpec, match=r"meta.name of .* has a NUL character"):
            await import_database(str(tmp_path / "file"), database)
        assert await is_empty(database)


async def test_work_that_was_under_way_is_ended_in_the_copy(
    tmp_path: Path, sqlite: Open, database: Database
) -> None:
    rows = sample()
    rows["invocations"][0] |= {"status": None, "finished": None, "host": "gone"}
    rows["deliveries"][0] |= {"status": "leased", "lease": "gone.0"}
    rows["runs"][0] |= {"status": "running", "invocation_id": "inv_0"}
    await fill(sqlite("source"), rows)
    await export_database(sqlite("source"), str(tmp_path / "file"))
    await import_database(str(tmp_path / "file"), database)
    first = {
        name: (await rows_of(database, TABLES[name]))[0] for name in ("invocations", "deliveries", "runs")
    }
    assert (first["invocations"]["status"], first["invocations"]["presumed"]) == ("failed", True)
    assert (first["deliveries"]["status"], first["deliveries"]["lease"]) == ("pending", None)
    assert (first["runs"]["status"], first["runs"]["reason"]) == ("failed", "host_ended")


IMPORT = textwrap.dedent(
    """
    import asyncio, sys
    from plughost.vai.database.open_database import open_database
    from plughost.vai.maintenance import transfer

    original = transfer._check_stored

    def slowly(footer):
        yield from original(footer)
        print("stored", flush=True)
        sys.stdin.read()

    transfer._check_stored = slowly

    async def main():
        database = open_database(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
        await transfer.import_database(sys.argv[1], database)

    asyncio.run(main())
    """
)


async def test_an_import_that_is_killed_leaves_the_database_empty(
    tmp_path: Path, sqlite: Open, database: Database, database_url: str | None
) -> None:
    """Killed when every row is stored and nothing is committed; the next import works."""
    await fill(sqlite("source"))
    footer = await export_database(sqlite("source"), str(tmp_path / "file"))
    words = [str(tmp_path / "file"), str(tmp_path), *([database_url] if database_url else [])]
    with subprocess.Popen(
        [sys.executable, "-c", IMPORT, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"stored\n"
        os.kill(process.pid, signal.SIGKILL)
    assert await is_empty(database)
    assert await import_database(str(tmp_path / "file"), database) == footer
    assert (await export_database(database, str(tmp_path / "again"))).tables == footer.tables
