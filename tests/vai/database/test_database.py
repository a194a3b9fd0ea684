"""Both databases behave the same: transactions, cancellation, closing, a lost server, announcements."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from plughost.errors import HostFailed, InvalidSpec, Stopped
from plughost.vai.database import migrations, postgresql, sqlite
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.migrations import Migration
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.database.postgresql import PostgresDatabase
from plughost.vai.database.statements import statement
from tests.support import until
from tests.support.postgres import Server, connected, server

PUT = statement("put", {None: "INSERT INTO meta (name, value) VALUES (:name, :value) RETURNING name"})
GET = statement("get", {None: "SELECT value FROM meta WHERE name = :name"})
COUNT = statement("count", {None: "SELECT count(*) AS number FROM meta"})


def put_two(first: str, second: str) -> Steps[int]:
    yield PUT(name=first, value="")
    yield PUT(name=second, value="")
    return (yield COUNT()).value()


async def test_a_transaction_has_all_its_effects_or_none(database: Database) -> None:
    assert await database.write(put_two, "a", "b") == 2
    with pytest.raises(DatabaseUnavailable):
        await database.write(put_two, "c", "a")
    assert (await database.read(COUNT())).value() == 2


async def test_one_that_fails_takes_no_other_along(database: Database) -> None:
    async def one(number: int) -> int | None:
        try:
            return await database.write(
                put_two, f"{number}", f"{number} again" if number % 3 else f"{number}"
            )
        except DatabaseUnavailable:
            return None

    results = await asyncio.gather(*(one(number) for number in range(60)))
    assert [number for number, result in enumerate(results) if result is None] == [*range(0, 60, 3)]
    assert (await database.read(COUNT())).value() == 80


async def test_an_error_does_not_show_the_row(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        await database.write(PUT(name="hunter2", value=None))
    assert "hunter2" not in caught.value.explain()
    assert "value" in caught.value.explain(), "the column is named"


async def test_an_error_of_the_unit_itself_is_its_callers_and_undoes_it(database: Database) -> None:
    def fails() -> Steps[None]:
        yield PUT(name="a", value="")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await database.write(fails)
    assert (await database.read(COUNT())).value() == 0


async def test_a_read_sees_one_moment(database: Database, database_url: str | None) -> None:
    await database.open()
    reached, written = threading.Event(), threading.Event()
    pause = statement("pause", {"sqlite": "SELECT 1", "postgresql": "SELECT pg_advisory_xact_lock(7)"})
    holder = None
    if database_url is not None:
        holder = await asyncpg.connect(database_url)
        await holder.execute("SELECT pg_advisory_lock(7)")

    def twice() -> Steps[tuple[int, int]]:
        first = (yield COUNT()).value()
        reached.set()
        if database.dialect == "sqlite":
            written.wait(10)
        yield pause()
        return first, (yield COUNT()).value()

    reading = asyncio.create_task(database.read(twice))
    await until(reached.is_set)
    await database.write(PUT(name="a", value=""))
    written.set()
    if holder is not None:
        await holder.close()
    assert await reading == (0, 0)


async def test_nothing_can_be_written_by_a_read(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        await database.read(put_two, "a", "b")
    assert (await database.read(COUNT())).value() == 0


async def test_a_caller_that_is_cancelled_waits_for_its_transaction(database: Database) -> None:
    await database.open()
    task = asyncio.create_task(database.write(put_two, "a", "b"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await database.read(COUNT())).value() == 2


async def test_closing_ends_what_was_begun_and_refuses_the_rest(
    tmp_path: Path, database_url: str | None
) -> None:
    database = open_database(str(tmp_path), database_url)
    await database.open()
    tasks = [asyncio.create_task(database.write(PUT(name=f"{number}", value=""))) for number in range(50)]
    await asyncio.sleep(0)
    await asyncio.gather(database.close(), database.close())
    await asyncio.gather(*tasks)
    for use in (database.read(COUNT()), database.write(COUNT()), database.open()):
        with pytest.raises(Stopped):
            await use
    await database.close()
    again = open_database(str(tmp_path), database_url)
    assert (await again.read(COUNT())).value() == 50
    await again.close()


async def test_texts_with_nul_and_lists_are_stored_alike(database: Database) -> None:
    await database.write(PUT(name="a\0b", value="x\0y"))
    assert (await database.read(GET(name="a\0b"))).value() == "x\ufffdy"
    found = statement("found", {None: "SELECT name FROM meta WHERE name = ANY(:names) ORDER BY name"})
    assert (await database.read(found(names=["a\ufffdb", "c"]))).changed == 1
    assert "x" not in repr(PUT(name="a", value="secret")), "values are not shown"


async def test_announcements_reach_this_process_at_once_and_others_soon(
    database: Database, tmp_path: Path, database_url: str | None
) -> None:
    heard: list[str] = []
    database.listen("news", lambda: heard.append("here"))
    other = open_database(str(tmp_path), database_url)
    other.listen("news", lambda: heard.append("there"))
    if database_url is not None:
        await until(lambda: {*heard} == {"here", "there"})  # both listen now, and may have missed something
    heard.clear()
    database.announce("news")
    assert heard == ["here"]
    if database_url is not None:
        await until(lambda: "there" in heard)
        await asyncio.sleep(0.2)
        assert heard == ["here", "there"]
    await other.close()


async def test_an_announcement_just_before_the_close_reaches_other_processes(postgres: Server) -> None:
    url = await postgres.create()
    database, other = open_database("unused", url), open_database("unused", url)
    heard: list[str] = []
    other.listen("news", lambda: heard.append("there"))
    await until(lambda: heard)  # it listens now
    heard.clear()
    database.announce("news")
    await database.close()
    await until(lambda: heard)
    await other.close()


async def test_many_processes_migrate_one_new_database(tmp_path: Path, database_url: str | None) -> None:
    code = (
        "import asyncio, sys\n"
        "from plughost.vai.database.open_database import open_database\n"
        "async def main():\n"
        "    database = open_database(sys.argv[1], sys.argv[2] or None)\n"
        "    await database.open()\n"
        "    await database.close()\n"
        "asyncio.run(main())\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path, database_url or ""], stderr=subprocess.PIPE)
        for _ in range(5)
    ]
    for process in started:
        _, said = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, said


LAST = len(migrations.migrations("sqlite"))
NEXT = Migration(LAST + 1, ("CREATE TABLE another (number INTEGER)", "INSERT INTO another VALUES (1)"))


async def test_a_database_gets_the_migrations_that_it_lacks_and_a_newer_one_is_left_alone(
    tmp_path: Path, database_url: str | None, monkeypatch
) -> None:
    async def opened() -> None:
        database = open_database(str(tmp_path), database_url)
        try:
            await database.open()
            await database.write(PUT(name=f"{len(migrations.migrations(database.dialect))}", value="kept"))
        finally:
            await database.close()

    await opened()
    known = migrations.migrations
    monkeypatch.setattr(migrations, "migrations", lambda dialect: (*known(dialect), NEXT))
    await opened()
    database = open_database(str(tmp_path), database_url)
    rows = await database.read(
        statement("both", {None: "SELECT number, (SELECT count(*) FROM meta) AS kept FROM another"})()
    )
    assert [dict(row) for row in rows.rows] == [{"number": 1, "kept": 2}]
    await database.close()
    monkeypatch.undo()
    newer = f"newer plughost: its version is {LAST + 1}, and this plughost supports {LAST}"
    with pytest.raises(HostFailed, match=newer):
        await opened()
    broken = Migration(LAST + 2, ("CREATE TABLE third (number INTEGER)", "ALTER nothing"))
    monkeypatch.setattr(migrations, "migrations", lambda dialect: (*known(dialect), NEXT, broken))
    with pytest.raises(HostFailed, match="syntax error"):
        await opened()
    fixed = Migration(LAST + 2, ("CREATE TABLE third (number INTEGER)",))
    monkeypatch.setattr(migrations, "migrations", lambda dialect: (*known(dialect), NEXT, fixed))
    await opened()


@pytest.mark.parametrize("revision", range(1, LAST))
async def test_a_database_of_every_earlier_revision_is_migrated_with_its_data(
    tmp_path: Path, database_url: str | None, monkeypatch, revision: int
) -> None:
    known = migrations.migrations
    monkeypatch.setattr(migrations, "migrations", lambda dialect: known(dialect)[:revision])
    earlier = open_database(str(tmp_path), database_url)
    await earlier.write(PUT(name="kept", value="as it was"))
    session = "INSERT INTO sessions (session_id, org_id, project_id, title) VALUES ('s', 'o', 'p', 't')"
    await earlier.write(statement("session", {None: session})())
    await earlier.close()
    monkeypatch.undo()
    database = open_database(str(tmp_path), database_url)
    assert (await database.read(GET(name="kept"))).value() == "as it was"
    titles = statement("titles", {None: "SELECT title FROM sessions"})
    assert (await database.read(titles())).value() == "t"
    tables = statement("tables", {None: "SELECT count(*) AS number FROM bindings"})
    assert (await database.read(tables())).value() == 0
    await database.close()


async def test_a_process_waits_for_the_migrations_of_another_however_long_they_take(
    postgres: Server, monkeypatch
) -> None:
    monkeypatch.setattr(postgresql, "COMMAND_TIMEOUT", 0.1)
    url = await postgres.create()
    migrating = await asyncpg.connect(url)
    await migrating.execute("SELECT pg_advisory_lock($1)", postgresql.MIGRATION_LOCK)
    database = open_database("unused", url)
    opening = asyncio.create_task(database.open())
    done, _ = await asyncio.wait([opening], timeout=0.5)
    assert not done
    await migrating.close()
    await opening
    await database.close()


async def test_closing_during_the_first_connection_leaves_none(postgres: Server) -> None:
    url = await postgres.create()
    database = open_database("unused", url)
    opening = asyncio.create_task(database.open())
    await asyncio.sleep(0)
    await database.close()
    assert opening.done(), "what was begun has ended"
    await asyncio.gather(opening, return_exceptions=True)
    observer = await asyncpg.connect(url)
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert await observer.fetchval(others) == 0
    await observer.close()


async def test_an_announcement_after_the_close_connects_to_nothing(database: Database) -> None:
    await database.open()
    await database.close()
    before = asyncio.all_tasks()
    database.announce("news")
    assert asyncio.all_tasks() == before


async def test_a_newer_database_is_refused_to_every_reader(
    database: Database, tmp_path: Path, database_url: str | None
) -> None:
    await database.open()
    if database.dialect == "sqlite":
        await database.close()
        with closing(sqlite3.connect(tmp_path / FILE)) as file:
            file.execute("PRAGMA user_version = 999")
    else:
        await database.write(statement("newer", {None: "UPDATE schema_version SET version = 999"})())
    older = open_database(str(tmp_path), database_url)
    for _ in range(2):
        with pytest.raises(HostFailed, match="newer plughost"):
            await older.read(COUNT())
    await older.close()


async def test_a_locked_file_is_a_typed_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.05)
    database = open_database(str(tmp_path))
    await database.open()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailable, match="vai.db cannot be used: database is locked"):
        await database.write(PUT(name="a", value=""))
    assert (await database.read(COUNT())).value() == 0, "who only reads waits for nobody"
    other.close()
    await database.write(PUT(name="a", value=""))
    await database.close()


async def test_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "new"))
    await database.open()
    assert (tmp_path / "new" / FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    await database.close()


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may stop; what it has committed survives that."""
    with server({"synchronous_commit": "on"}) as running:
        yield running


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT])
async def test_a_server_that_restarts_is_used_again(own_server: Server, how: signal.Signals) -> None:
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["message"]))
    database = open_database("unused", await own_server.create())
    heard = asyncio.Event()
    database.listen("news", heard.set)
    await database.write(PUT(name="before", value=""))
    await asyncio.wait_for(heard.wait(), 10)
    await asyncio.to_thread(own_server.stop, how)
    with pytest.raises(DatabaseUnavailable, match="cannot be used"):
        await database.write(PUT(name="meanwhile", value=""))
    with pytest.raises(DatabaseUnavailable):
        await database.read(COUNT())
    await until(lambda: told)
    assert {*told} == {"changes in other processes are noticed late"}
    heard.clear()
    await asyncio.to_thread(own_server.start)
    await asyncio.wait_for(heard.wait(), 10)  # something may have been missed
    await database.write(PUT(name="after", value=""))
    assert (await database.read(COUNT())).value() == 2
    await database.close()


async def test_connections_that_are_cut_are_replaced(postgres: Server) -> None:
    url = await postgres.create()
    database = open_database("unused", url)
    await database.write(PUT(name="a", value=""))
    cut = statement(
        "cut",
        {
            None: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        },
    )
    killer = open_database("unused", url)
    await killer.write(cut())
    for number in range(20):
        try:
            await database.write(PUT(name=f"{number}", value=""))
            break
        except DatabaseUnavailable:
            continue
    assert number <= 10, "as many as a pool has"
    await database.close()
    await killer.close()


async def test_no_server_and_no_password_in_the_error(tmp_path: Path) -> None:
    database = open_database("unused", f"postgresql://me:hunter2@/name?host={tmp_path}")
    with pytest.raises(DatabaseUnavailable) as caught:
        await database.open()
    assert "hunter2" not in caught.value.explain() + repr(database)
    await database.close()


async def test_locks_of_a_process_that_was_stopped_in_a_transaction_are_freed(
    postgres: Server, monkeypatch
) -> None:
    monkeypatch.setattr(postgresql, "IDLE_MILLISECONDS", 200)
    url = await postgres.create()
    stopped, other = open_database("unused", url), open_database("unused", url)
    await other.write(PUT(name="a", value=""))
    async with connected(stopped) as connection:
        await connection.execute("BEGIN")
        await connection.execute("UPDATE meta SET value = 'never' WHERE name = 'a'")
        change = statement("change", {None: "UPDATE meta SET value = 'other' WHERE name = 'a'"})
        assert (await other.write(change())).changed == 1
        gone = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
        with pytest.raises(gone):
            await connection.execute("COMMIT")
    assert (await other.read(GET(name="a"))).value() == "other"
    await other.close()
    await stopped.close()


async def test_callers_share_the_connections_in_turn(postgres: Server) -> None:
    url = await postgres.create()
    database = PostgresDatabase(url, connections=2)
    await asyncio.gather(*(database.write(PUT(name=f"{number}", value="")) for number in range(50)))
    assert (await database.read(COUNT())).value() == 50
    used = "SELECT count(*) AS number FROM pg_stat_activity WHERE datname = current_database()"
    assert (await database.read(statement("used", {None: used})())).value() <= 2
    await database.close()


async def test_a_read_waits_for_the_tables_that_another_transaction_is_creating(tmp_path: Path) -> None:
    gate = threading.Event()
    database = sqlite.SqliteDatabase(str(tmp_path / FILE), prepare=lambda _: assert_true(gate.wait(30)))
    writing = asyncio.create_task(database.write(PUT(name="a", value="")))
    await until(lambda: (tmp_path / FILE).exists())
    reading = asyncio.create_task(database.read(COUNT()))
    await asyncio.wait([reading], timeout=0.2)  # one that does not wait has failed by then
    gate.set()
    await writing
    assert (await reading).value() == 1
    await database.close()


def assert_true(value: bool) -> None:
    assert value


@pytest.mark.parametrize("character", ["/", "?", "#", "@", "["])
async def test_no_password_is_shown_whose_special_characters_are_not_escaped(character: str) -> None:
    with pytest.raises(InvalidSpec, match="malformed") as caught:
        open_database("unused", f"postgresql://me:hunter{character}two@localhost:1/name")
    assert "hunter" not in caught.value.explain()
    assert "two" not in caught.value.explain()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter%2Ftwo@localhost:1/name",
        "postgresql://me@[::1]:1,localhost:2/name?connect_timeout=1",
        "postgresql:///name?host=/run/postgresql&password=p@ss",
    ],
)
def test_the_usual_urls_are_accepted(url: str) -> None:
    assert "hunter" not in repr(open_database("unused", url))
