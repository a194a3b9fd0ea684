"""`plughost database` from the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plughost.cli.commands.vai.database import database as command
from plughost.errors import InvalidSpec
from plughost.testing import VirtualClock
from plughost.vai.database.database import Database
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.records.journal import Journal
from plughost.vai.records.records import Records
from tests.support.command_line import run_here
from tests.support.postgres import Server, new_database
from tests.support.records import RecordBook, blocking
from tests.vai.invocations.test_journal import began, ended
from tests.vai.maintenance.rows import fill, sample


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [*map(str, words)])


def told(*words: str | Path) -> dict[str, object]:
    ran = run(*words, "--json")
    assert ran.exit_code == 0, (ran.output, ran.exception)
    document: dict[str, object] = json.loads(ran.output)
    return document


def refused(*words: str | Path) -> str:
    ran = run(*words)
    assert isinstance(ran.exception, InvalidSpec), (ran.output, ran.exception)
    return ran.exception.message


@pytest.fixture
def state(tmp_path: Path) -> Path:
    async def work() -> None:
        database = open_database(str(tmp_path / "state"))
        await fill(database)
        await database.close()

    blocking(work)
    return tmp_path / "state"


def test_a_refusal_says_what_to_do(tmp_path: Path, state: Path) -> None:
    words = ("database", "backup", str(tmp_path / "file"), "--state", str(state))
    done = subprocess.run([sys.executable, "-m", "plughost.cli", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    ran = run_here(*words)
    assert ran.returncode == 2
    assert "already exists" in ran.stderr
    assert "hint: choose another name" in ran.stderr


def test_backup_and_restore(tmp_path: Path, state: Path) -> None:
    report = told("backup", tmp_path / "file", "--state", state)
    assert report == {
        "file": str(tmp_path / "file"),
        "state": str(state),
        "bytes": (tmp_path / "file").stat().st_size,
    }
    assert "already exists" in refused("backup", tmp_path / "file", "--state", state)
    report = told("restore", tmp_path / "file", "--state", tmp_path / "new")
    assert report == {"file": str(tmp_path / "file"), "state": str(tmp_path / "new")}
    assert "already has a database" in refused("restore", tmp_path / "file", "--state", tmp_path / "new")
    ran = run("backup", tmp_path / "file 2", "--state", tmp_path / "new")
    assert ran.output.startswith(f"backed up {tmp_path / 'new'} to {tmp_path / 'file 2'}: ")
    ran = run("restore", tmp_path / "file 2", "--state", tmp_path / "new 2")
    assert ran.output == f"restored {tmp_path / 'file 2'} to {tmp_path / 'new 2'}\n"


def test_from_sqlite_to_postgresql_and_back(tmp_path: Path, state: Path, postgres: Server) -> None:
    url = new_database(postgres)
    exported = told("export", tmp_path / "1", "--state", state)
    assert exported["tables"]["runs"]["rows"] == len(sample()["runs"])  # type: ignore[index]
    assert told("import", tmp_path / "1", "--database", url)["tables"] == exported["tables"]
    assert "the table meta has rows" in refused("import", tmp_path / "1", "--database", url)
    assert told("export", tmp_path / "2", "--database", url)["tables"] == exported["tables"]
    ran = run("import", tmp_path / "2", "--state", tmp_path / "new")
    assert f"imported {tmp_path / '2'}: " in ran.output
    assert f"\n  runs: {len(sample()['runs'])}\n" in ran.output
    assert told("export", tmp_path / "3", "--state", tmp_path / "new")["tables"] == exported["tables"]


def test_what_journals_of_a_running_host_hold_is_exported(tmp_path: Path) -> None:
    async def work() -> None:
        database: Database = open_database(str(tmp_path / "state"))
        journal = Journal(str(tmp_path / "state"), Records(database), VirtualClock())  # which never flushes
        await database.open()
        journal.append(began(1))
        report = await asyncio.to_thread(told, "export", tmp_path / "file", "--state", tmp_path / "state")
        assert report["tables"]["invocations"]["rows"] == 1  # type: ignore[index]
        assert "a running host uses" in await asyncio.to_thread(
            refused, "import", tmp_path / "file", "--state", tmp_path / "state"
        )
        journal.append(ended(1))
        await journal.close()
        await database.close()

    blocking(work)
    with RecordBook(tmp_path / "state") as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"], "the host was left alone"


def test_a_folder_of_an_earlier_version_is_not_imported_into(tmp_path: Path, state: Path) -> None:
    told("export", tmp_path / "file", "--state", state)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "state.db").write_bytes(b"mine")
    assert "already has a database" in refused("import", tmp_path / "file", "--state", tmp_path / "old")
    assert [each.name for each in (tmp_path / "old").iterdir()] == ["state.db"]


def test_a_wrong_folder_or_database_is_refused(tmp_path: Path, state: Path) -> None:
    assert "has no database" in refused("export", tmp_path / "file", "--state", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert "must begin with postgresql://" in refused("export", tmp_path / "file", "--database", "mysql://x")
    ran = run("export", tmp_path / "file", "--state", state, "--database", "postgresql://x")
    assert ran.exit_code == 2
    assert "exclude each other" in ran.output
    assert "cannot be read" in refused("import", tmp_path / "file", "--state", tmp_path / "new")
    assert not (tmp_path / "new" / FILE).exists()
