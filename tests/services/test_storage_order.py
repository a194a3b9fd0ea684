"""One plugin's requests in their order, many at once, and no more files open than allowed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plughost.errors import Stopped
from plughost.services.storage import service, sqlite_file
from plughost.services.storage.service import Storage
from tests.support import until
from tests.support.storage_client import Client, counted, file, open_files, quick_settings


async def test_requests_of_one_plugin_keep_their_order(client):
    asked = []
    for number in range(300):
        asked += [client.set("k", b"%d" % number), client.get("k")]
        if number % 10 == 0:
            asked += [client.delete("k"), client.get("k")]
    answers = await asyncio.gather(*asked)
    expected: list[object] = []
    for number in range(300):
        expected += [None, b"%d" % number]
        if number % 10 == 0:
            expected += [True, None]
    assert answers == expected


async def test_what_is_asked_at_once_shares_a_commit(client, monkeypatch):
    commits = counted(monkeypatch)
    await client.set("warm", b"1")
    await asyncio.gather(*(client.set(f"{n}", b"1") for n in range(64)))
    assert commits == [1, 64]
    await asyncio.gather(*(client.set(f"{n}", b"1") for n in range(100)))
    assert commits == [1, 64, 64, 36]


async def test_more_plugins_than_may_have_a_file_open(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "SETTINGS", quick_settings())
    monkeypatch.setattr(service, "MAX_OPEN", 6)
    store = Storage(tmp_path)
    clients = [Client(store, f"p{n}") for n in range(40)]

    async def use(client: Client, number: int) -> None:
        for turn in range(5):
            await client.set(f"k{turn}", b"%d" % number)
            assert await client.get(f"k{turn}") == b"%d" % number
            assert len(open_files(tmp_path)) <= 6 * 3

    await asyncio.gather(*(use(client, number) for number, client in enumerate(clients)))
    assert len([name for name in open_files(tmp_path) if name.endswith(".sqlite")]) == 6
    await store.close()
    assert not open_files(tmp_path)
    assert not list(tmp_path.glob("*-wal"))


async def test_a_file_is_closed_after_the_last_process_of_its_plugin(store, tmp_path):
    old, new = Client(store, "notes"), Client(store, "notes")
    await old.set("a", b"1")
    await new.set("b", b"2")
    old.caller.end()
    await Client(store, "other").get("a")
    assert file(store).name in {Path(name).name for name in open_files(tmp_path)}
    late = asyncio.gather(new.set("c", b"3"), new.get("a"))
    await asyncio.sleep(0)
    new.caller.end()
    assert await late == [None, b"1"]
    await until(lambda: str(file(store)) not in open_files(tmp_path))
    assert await Client(store, "notes").get("c") == b"3"


async def test_a_request_of_a_process_that_has_ended_leaves_nothing_open(store, tmp_path):
    client = Client(store, "notes")
    client.caller.end()
    await client.set("a", b"1")
    assert await client.get("a") == b"1"
    await until(lambda: not open_files(tmp_path))


async def test_closing_waits_for_what_was_asked_and_refuses_the_rest(store):
    client = Client(store, "notes")
    asked = asyncio.gather(*(client.set(f"{n}", b"1") for n in range(200)))
    await asyncio.sleep(0)
    await store.close()
    assert await asked == [None] * 200
    with pytest.raises(Stopped, match="the host has closed its storage"):
        await client.get("0")
    await store.close()


async def test_who_gives_up_waiting_disturbs_nobody(client):
    given_up = asyncio.ensure_future(client.set("a", b"1"))
    stays = asyncio.ensure_future(client.set("b", b"2"))
    await asyncio.sleep(0)
    given_up.cancel()
    await stays
    assert await client.get("b") == b"2"
