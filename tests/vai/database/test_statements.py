"""Every statement of vai is prepared on both databases, from one source."""

import importlib
from pathlib import Path

import pytest

import plughost.vai
from plughost.vai.database.database import Database
from plughost.vai.database.statements import Statement, parse_statements
from plughost.vai.records.records import LIST
from tests.support.postgres import connected

ROOT = Path(plughost.vai.__file__).parent
FILES = sorted(file for file in ROOT.rglob("*.sql") if "migrations" not in file.parts)
STATEMENTS = {
    f"{file.stem}.{name}": each for file in FILES for name, each in parse_statements(file.read_text()).items()
}


def test_there_are_statements_beside_their_modules() -> None:
    assert len(STATEMENTS) > 40
    for file in FILES:
        package = ".".join(["plughost", "vai", *file.parent.relative_to(ROOT).parts])
        assert (
            importlib.import_module(f"{package}.{file.stem}")._SQL.keys()
            == parse_statements(file.read_text()).keys()
        )


async def prepare(database: Database, statement: Statement) -> None:
    if database.dialect == "postgresql":
        async with connected(database) as connection:
            await connection.prepare(statement.postgresql)
        return
    connection = database._open_connection()
    try:
        connection.execute(f"EXPLAIN {statement.sqlite}", dict.fromkeys(statement.parameters)).fetchall()
    finally:
        connection.close()


async def test_every_statement_is_prepared_on_both(database: Database) -> None:
    await database.open()
    for name, statement in STATEMENTS.items():
        try:
            await prepare(database, statement)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


async def test_every_filter_of_a_list_is_prepared_on_both(database: Database) -> None:
    await database.open()
    for name in LIST.names:
        filters = {name: "x" if name not in ("since", "until") else 1}
        filters |= {"export": "x", "org": "o", "project": "p"}
        assert (await database.read(LIST.query(filters, 10))).rows == []


def test_parameters_are_numbered_and_texts_and_casts_left_alone() -> None:
    (one,) = parse_statements(
        "-- one: a statement\nSELECT ':no', x::text, :a, :b, :a FROM t -- :c\n WHERE y = ANY(:a) FOR UPDATE SKIP LOCKED;\n"
    ).values()
    assert one.postgresql.startswith("SELECT ':no', x::text, $1, $2, $1 FROM t")
    assert one.parameters[:2] == ("a", "b")
    assert one.sqlite.endswith("WHERE y IN (SELECT value FROM json_each(:a))")


@pytest.mark.parametrize(
    "source",
    ["-- a: x\nSELECT 1;\n-- a: y\nSELECT 2;", "-- a (sqlite): only one\nSELECT 1;", "-- a: empty\n"],
)
def test_a_file_that_is_wrong_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="the statement a"):
        parse_statements(source)
