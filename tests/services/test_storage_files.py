"""The files of the storage: private, damaged, newer, locked, full, and whose they are."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost._util import sqlite
from plughost.errors import Overloaded, PluginError
from plughost.services.storage import service, sqlite_file
from plughost.services.storage.plugin_store import file_name
from plughost.services.storage.service import Storage
from tests.support import ROOT, until
from tests.support.storage_client import Client, counted, file, open_files


async def test_the_folder_and_the_files_are_the_users_own(store, client):
    old = os.umask(0)
    try:
        await client.set("a", b"1")
    finally:
        os.umask(old)
    for path in file(store).parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file(store).parent.stat().st_mode) == 0o700


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_every_name_has_a_file_of_its_own(one, other):
    for name in (one, other):
        spelled = file_name(name)
        assert spelled.isascii()
        assert spelled == spelled.lower() or "%" in spelled
        assert not spelled.startswith(".") or name == ""
        assert "/" not in spelled
        assert "\0" not in spelled
        assert len(spelled) <= 220
    assert (file_name(one).lower() == file_name(other).lower()) == (one == other)


def test_usual_names_stay_readable():
    assert file_name("kaged-notes_2.x") == "kaged-notes_2.x.sqlite"
    assert file_name("../A") == "%2E.%2F%41.sqlite"


async def test_it_is_durable_the_way_it_says(client):
    await client.set("a", b"1")
    with sqlite3.connect(file(client.store)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    held = client.store._stores["notes", None]._database._connection
    assert held.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_backup_is_made_while_it_runs(client, tmp_path):
    await client.set("a", b"1")
    source, copy = sqlite3.connect(file(client.store)), sqlite3.connect(tmp_path / "copy")
    source.backup(copy)
    await client.set("a", b"2")
    assert copy.execute("SELECT value FROM entries").fetchall() == [(b"1",)]
    source.close()
    copy.close()


async def test_a_damaged_file_is_named_and_kept_and_others_go_on(store, client):
    await client.set("a", b"1")
    client.caller.end()
    await Client(store, "other").set("a", b"1")
    await until(lambda: ("notes", None) not in store._stores)
    whole = file(store).read_bytes()
    damaged = b"no database " * 1000
    file(store).write_bytes(damaged)
    client = Client(store, "notes")
    for _ in range(2):
        for outcome in await asyncio.gather(
            client.get("a"), client.set("a", b"2"), client.list(), return_exceptions=True
        ):
            assert type(outcome) is PluginError
            assert outcome.message == f"the storage in {file(store)} is damaged: file is not a database"
            assert "move the file" in outcome.hint
    assert client.warnings == [f"{outcome.message} ({outcome.hint})"]
    assert file(store).read_bytes() == damaged
    assert await Client(store, "other").get("a") == b"1"
    file(store).write_bytes(whole)
    assert await client.get("a") == b"1"


async def test_damage_within_a_file_is_found_by_who_comes_there_until_it_is_mended(store, client, tmp_path):
    for number in range(100):
        await client.set(f"{number}", b'"' + b"x" * 1000 + b'"')
    await store.close()
    whole = file(store).read_bytes()
    octets = bytearray(whole)
    octets[4096 * 2 :] = b"\xa5" * (len(octets) - 4096 * 2)
    file(store).write_bytes(octets)
    again = Storage(file(store).parent)
    outcomes = await asyncio.gather(
        *(Client(again, "notes").get(f"{number}") for number in range(100)), return_exceptions=True
    )
    assert any(isinstance(outcome, PluginError) and "is damaged" in outcome.message for outcome in outcomes)
    with pytest.raises(PluginError, match="is damaged"):
        await Client(again, "notes").set("99", b"1")
    file(store).rename(tmp_path / "damaged")
    file(store).write_bytes(whole)
    await Client(again, "notes").set("99", b"1")
    assert await Client(again, "notes").get("99") == b"1"
    await again.close()


async def test_a_file_of_a_newer_version_is_left_as_it_is(store, client):
    await client.set("a", b"1")
    await store.close()
    with sqlite3.connect(file(store)) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = file(store).read_bytes()
    again = Storage(file(store).parent)
    for _ in range(2):
        with pytest.raises(
            PluginError,
            match="was written by a newer plughost: its version is 2, and this plughost supports 1",
        ):
            await Client(again, "notes").set("a", b"2")
    await again.close()
    assert file(store).read_bytes() == before


async def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    store = Storage(tmp_path / "file" / "storage")
    with pytest.raises(PluginError, match="the storage in .* failed: .*Not a directory"):
        await Client(store, "notes").get("a")
    await store.close()


async def test_a_file_that_was_never_finished_is_taken(store, client):
    file(store).parent.mkdir()
    file(store).touch()
    await client.set("a", b"1")
    assert await client.get("a") == b"1"


# Two hosts at once


async def test_a_file_that_another_program_locks_is_waited_for_and_then_told(store, client, monkeypatch):
    await client.set("a", b"1")
    client.store._stores["notes", None]._database._connection.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(file(store), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits = counted(monkeypatch)
    set_alone = await asyncio.gather(client.set("a", b"2"), return_exceptions=True)
    outcomes = await asyncio.gather(
        client.get("a"), client.set("a", b"2"), client.get("a"), client.delete("a"), return_exceptions=True
    )
    assert [outcomes[0], outcomes[2]] == [b"1", b"1"]
    for outcome in (*set_alone, outcomes[1], outcomes[3]):
        assert isinstance(outcome, Overloaded)
        assert outcome.message == f"another program has kept {file(store)} locked for 5 s"
    assert waits == [1, 4]  # not one for each
    other.execute("COMMIT")
    other.close()
    await client.set("a", b"3")
    assert await client.get("a") == b"3"


async def test_a_file_that_another_program_reads_is_opened_when_it_has_read(store, client, monkeypatch):
    file(store).parent.mkdir()
    other = sqlite3.connect(file(store), isolation_level=None, check_same_thread=False)
    other.executescript("CREATE TABLE theirs (a); BEGIN; SELECT * FROM theirs;")
    refused = []

    def sleep(seconds: float) -> None:
        refused.append(seconds)
        if other.in_transaction:
            other.execute("COMMIT")

    def hasty(path: str, **settings: Any) -> sqlite3.Connection:
        """SQLite itself sometimes does not wait, when two change the journal at once."""
        return connect(path, **{**settings, "timeout": 0})

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", hasty)
    monkeypatch.setattr(sqlite, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    await client.set("a", b"1")
    assert refused
    other.close()


async def test_two_storages_open_and_write_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT", 60.0)  # a slow disk is not what this is about
    for _ in range(3):
        stores = [Storage(tmp_path, quota=10_000) for _ in range(3)]
        clients = [Client(store, "notes") for store in stores]
        await asyncio.gather(
            *(client.set(f"{n}/{number}", b"1") for n, client in enumerate(clients) for number in range(50))
        )
        assert len((await clients[0].list())[0]) == 150
        await asyncio.gather(*(store.close() for store in stores))
    with sqlite3.connect(tmp_path / "notes.sqlite") as connection:
        (counted,) = connection.execute("SELECT bytes FROM usage").fetchone()
        (real,) = connection.execute("SELECT sum(length(key) + length(value)) FROM entries").fetchone()
        assert counted == real
    connection.close()


# A host's own


async def test_a_hosts_own_storage_is_in_the_users_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with plughost.Host() as host:
        client = Client(host.service("storage"), "notes")
        await client.set("a", b"1")
    assert (tmp_path / "plughost/storage/notes.sqlite").exists()
    assert not open_files(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert service.default_folder() == str(tmp_path / "home/.local/state/plughost/storage")


def test_sqlite_is_loaded_by_the_first_request():
    program = (
        "import sys, plughost; from plughost.services.storage.service import Storage; Storage('/x'); "
        "assert 'sqlite3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
