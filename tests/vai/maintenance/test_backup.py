"""A backup of a running host has everything that was acknowledged before, and becomes a state folder again."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from plughost.clock import best_clock
from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database import legacy
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.maintenance.backup import backup, restore
from plughost.vai.maintenance.tables import TABLES
from plughost.vai.records.journal import Journal
from plughost.vai.records.records import Records
from plughost.vai.runtime import VaiRuntime
from tests.support.records import RecordBook
from tests.vai.invocations.test_journal import began
from tests.vai.maintenance.rows import fill, sample

HOST = textwrap.dedent(
    """
    import asyncio, json, sys
    from plughost.vai.bindings.bindings import FixedBindings
    from plughost.vai.records import journal
    from plughost.vai.runtime import VaiRuntime
    from plughost.vai.state.chains import Block, Chain
    from plughost.vai.state.runs import RunRecord
    from plughost.vai.state.sessions import TenantSession
    from tests.vai.invocations.conftest import TENANT
    from tests.vai.invocations.test_journal import began, ended
    from tests.vai.state.test_deliveries import event

    journal.DELAY = 3600.0  # records stay in the journal: nobody but `recover` copies them

    async def main():
        async with VaiRuntime(sys.argv[1], None, FixedBindings([])) as runtime:
            state, tenant = runtime.state, {"org_id": TENANT.org_id, "project_id": TENANT.project_id}
            for number in range(1_000_000):
                chain = Chain(chain_id=f"ch_{number}", session_id=f"sess_{number}", **tenant)
                run = RunRecord(run_id=f"run_{number}", chain_id=chain.chain_id, **tenant)
                runtime.journal.append(began(number))
                await state.sessions.create(TenantSession(session_id=f"sess_{number}", **tenant))
                await state.chains.create(chain, [Block("output", ["x" * 1000])])
                await state.runs.start(run)
                await state.runs.finish(run.run_id, "succeeded")
                await runtime.publish(TENANT, event(number))
                runtime.journal.append(ended(number))
                print(number, flush=True)

    asyncio.run(main())
    """
)


@contextmanager
def writing_host(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A host in a process of its own, which says the number of each round that was acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(folder)], stdout=subprocess.PIPE, text=True
    ) as host:
        try:
            yield host
        finally:
            host.kill()


async def read_until(host: subprocess.Popen[str], least: int) -> int:
    assert host.stdout is not None
    number = -1
    while number < least:
        number = int(await asyncio.to_thread(host.stdout.readline))
    return number


def column(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return [value for (value,) in connection.execute(query)]


async def test_a_backup_of_a_writing_host_has_everything_that_was_acknowledged(tmp_path: Path) -> None:
    with writing_host(tmp_path / "state") as host:
        known = await read_until(host, 30)
        for name in ("one.db", "two.db"):
            await backup(str(tmp_path / "state"), str(tmp_path / name))
            assert column(tmp_path / name, "PRAGMA integrity_check") == ["ok"]
            await restore(str(tmp_path / name), str(tmp_path / f"from {name}"))
            file = tmp_path / f"from {name}" / FILE
            for table, key, prefix in (
                ("sessions", "session_id", "sess_"),
                ("chains", "chain_id", "ch_"),
                ("blocks", "chain_id", "ch_"),
                ("runs", "run_id", "run_"),
                ("invocations", "invocation_id", "inv_"),
            ):
                found = set(column(file, f"SELECT {key} FROM {table}"))
                assert found >= {f"{prefix}{number}" for number in range(known + 1)}
            ended = "SELECT count(*) FROM invocations WHERE status = 'succeeded'"
            assert column(file, ended)[0] > known
            events = column(file, "SELECT event FROM events ORDER BY number")
            assert len(events) >= 2 * (known + 1), "each round has the run's event and its own"
            # A consistent moment: a run has ended exactly if its event is there.
            over = set(column(file, "SELECT run_id FROM runs WHERE status <> 'running'"))
            assert over == {
                each["subject"]["id"] for each in map(json.loads, events) if "output" in each["summary"]
            }
            known = await read_until(host, known + 30)


async def test_a_restored_folder_is_used_by_the_next_host(tmp_path: Path) -> None:
    with writing_host(tmp_path / "state") as host:
        await read_until(host, 5)
        await backup(str(tmp_path / "state"), str(tmp_path / "file"))
    await restore(str(tmp_path / "file"), str(tmp_path / "new"))
    assert os.listdir(tmp_path / "new") == [FILE]
    async with VaiRuntime(str(tmp_path / "new"), None, FixedBindings([])) as runtime:  # type: ignore[arg-type]
        assert (await runtime.state.runs.run("run_5")).status == "succeeded"
        assert (await runtime.state.sessions.session("sess_5")).org_id == "org_1"
    with RecordBook(tmp_path / "new") as book:
        record = book.get("inv_5")
        assert record is not None
        assert record["status"] == "succeeded"


async def test_work_that_was_under_way_is_ended_in_the_restored_folder(tmp_path: Path) -> None:
    rows = sample()
    rows["invocations"][0] |= {"status": None, "finished": None, "host": "gone"}
    rows["deliveries"][0] |= {"status": "leased", "lease": "gone.0"}
    database = open_database(str(tmp_path / "state"))
    await fill(database, rows)
    await database.close()
    await backup(str(tmp_path / "state"), str(tmp_path / "file"))
    assert column(tmp_path / "file", "SELECT count(*) FROM deliveries WHERE status = 'leased'") == [1]
    await restore(str(tmp_path / "file"), str(tmp_path / "new"))
    assert column(tmp_path / "new" / FILE, "SELECT count(*) FROM deliveries WHERE status = 'leased'") == [0]
    status = "SELECT status FROM invocations WHERE invocation_id = 'inv_0'"
    assert column(tmp_path / "new" / FILE, status) == ["failed"]


async def test_commits_of_others_do_not_start_a_backup_anew(tmp_path: Path) -> None:
    """Each round of this writer is shorter than the copy of the file takes."""
    source = open_database(str(tmp_path / "state"))
    big = [{"name": f"{n:06}", "value": "x" * 2000} for n in range(20_000)]
    await fill(source, {"meta": big})
    stop = False

    async def write() -> int:
        number = 0
        while not stop:
            await source.write_unsynced(TABLES["meta"].insert(name=f"w{number}", value=""))
            number += 1
        return number

    task = asyncio.create_task(write())
    began_at = time.monotonic()
    try:
        await asyncio.wait_for(backup(str(tmp_path / "state"), str(tmp_path / "file")), 60)
    finally:
        took = time.monotonic() - began_at
        stop = True
        written = await task
        await source.close()
    assert written > 10
    assert took < 30
    assert column(tmp_path / "file", "SELECT count(*) FROM meta")[0] >= len(big)


async def test_the_backup_is_one_file_for_its_owner_and_replaces_none(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "state"))
    await fill(database)
    await database.close()
    (tmp_path / "out").mkdir()
    await backup(str(tmp_path / "state"), str(tmp_path / "out" / "file"))
    assert os.listdir(tmp_path / "out") == ["file"]
    assert (tmp_path / "out" / "file").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "out" / "file").read_bytes()
    with pytest.raises(InvalidSpec, match="already exists"):
        await backup(str(tmp_path / "state"), str(tmp_path / "out" / "file"))
    assert (tmp_path / "out" / "file").read_bytes() == before
    with pytest.raises(InvalidSpec, match="there is no folder"):
        await backup(str(tmp_path / "state"), str(tmp_path / "none" / "file"))


async def test_a_folder_without_a_database_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="has no database"):
        await backup(str(tmp_path / "state"), str(tmp_path / "file"))
    assert os.listdir(tmp_path) == [], "nothing was created"


@pytest.fixture
async def backed_up(tmp_path: Path) -> Path:
    database = open_database(str(tmp_path / "state"))
    await fill(database)
    await database.close()
    await backup(str(tmp_path / "state"), str(tmp_path / "file"))
    return tmp_path / "file"


@pytest.mark.parametrize("name", [FILE, *legacy.VERSIONS])
async def test_a_folder_with_a_database_is_not_restored_into(
    tmp_path: Path, backed_up: Path, name: str
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_bytes(b"mine")
    with pytest.raises(InvalidSpec, match=f"already has a database: {name}"):
        await restore(str(backed_up), str(tmp_path / "new"))
    assert {each.name: each.read_bytes() for each in (tmp_path / "new").iterdir()} == {name: b"mine"}


async def test_a_folder_with_a_running_host_is_not_restored_into(tmp_path: Path, backed_up: Path) -> None:
    folder = str(tmp_path / "new")
    clock = best_clock(asyncio.get_running_loop())
    database = open_database(folder)
    journal = Journal(folder, Records(database), clock)
    assert not (tmp_path / "new" / FILE).exists()
    with pytest.raises(InvalidSpec, match="a running host uses"):
        await restore(str(backed_up), folder)
    assert not (tmp_path / "new" / FILE).exists()
    await journal.close()
    await restore(str(backed_up), folder)
    await database.close()
    clock.close()


async def test_lines_that_a_dead_host_left_are_added_to_the_restored_database(
    tmp_path: Path, backed_up: Path
) -> None:
    """The database was lost, and the journal beside it was not."""
    clock = best_clock(asyncio.get_running_loop())
    database = open_database(str(tmp_path / "new"))
    journal = Journal(str(tmp_path / "new"), Records(database), clock)
    journal.append(began(7777))
    (left,) = (tmp_path / "new").iterdir()
    data = left.read_bytes()
    await journal.close()
    await database.close()
    clock.close()
    (tmp_path / "new" / FILE).unlink()
    left.write_bytes(data)
    await restore(str(backed_up), str(tmp_path / "new"))
    async with VaiRuntime(str(tmp_path / "new"), None, FixedBindings([])) as runtime:  # type: ignore[arg-type]
        record = await runtime.records.get("inv_7777")
        assert record is not None
        assert record["reason"] == "host_ended"


def _damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(8192) + data[middle + 8192 :]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_damaged, "is damaged"),
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: b"", "is not a backup"),
        (lambda data: b'{"format":1}', "is not a backup"),
    ],
)
async def test_a_file_that_is_not_an_intact_backup_is_refused(
    tmp_path: Path, backed_up: Path, change: Any, words: str
) -> None:
    backed_up.write_bytes(change(backed_up.read_bytes()))
    with pytest.raises(InvalidSpec, match=words):
        await restore(str(backed_up), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists() or os.listdir(tmp_path / "new") == []


async def test_another_database_or_no_file_is_refused(tmp_path: Path) -> None:
    for version in (0, 1, 75):
        with closing(sqlite3.connect(tmp_path / "other")) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (x)")
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(InvalidSpec, match="other is not a database of plughost"):
            await restore(str(tmp_path / "other"), str(tmp_path / "new"))
    with pytest.raises(InvalidSpec, match="cannot be read: No such file"):
        await restore(str(tmp_path / "none"), str(tmp_path / "new"))


async def test_a_backup_of_a_newer_plughost_is_refused(tmp_path: Path, backed_up: Path) -> None:
    with closing(sqlite3.connect(backed_up)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(HostFailed, match=f": {backed_up} was written by a newer plughost"):
        await restore(str(backed_up), str(tmp_path / "new"))
    assert os.listdir(tmp_path / "new") == []


async def test_the_database_of_a_state_folder_is_not_restored_without_its_log(tmp_path: Path) -> None:
    with writing_host(tmp_path / "state") as host:
        await read_until(host, 30)
        with pytest.raises(InvalidSpec, match=r"vai\.db is the database of a state folder, not a backup"):
            await restore(str(tmp_path / "state" / FILE), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


async def test_a_folder_that_cannot_be_created_is_a_typed_error(tmp_path: Path, backed_up: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostFailed, match="cannot be created: Not a directory"):
        await restore(str(backed_up), str(tmp_path / "file" / "new"))
