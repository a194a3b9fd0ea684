"""What plugins store is theirs alone, in order, bounded, and there when they ask for it again."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from plughost.errors import InvalidSpec, Overloaded
from plughost.services.storage import service, sqlite_file
from plughost.services.storage.messages import MAX_KEY, MAX_KEYS, MAX_VALUE
from plughost.services.storage.service import Storage
from tests.support.storage_client import Client, file, quick_settings


async def test_what_was_set_is_found_again_as_it_was(client):
    assert await client.get("a") is None
    for value in (b"1", b"null", b'{"deep":[1e999,"\\u0000"]}', b" [ 1 ] ", b'"\xc3\xa9"'):
        await client.set("a", value)
        assert await client.get("a") == value
    assert await client.delete("a")
    assert not await client.delete("a")
    assert await client.get("a") is None


async def test_the_answers_are_what_the_wire_says(client):
    store, caller = client.store, client.caller
    params = client.params
    answers = [
        await store.get(caller, params(key="a")),
        await store.set(caller, params(key="a", value=msgspec.Raw(b"null"))),
        await store.get(caller, params(key="a")),
        await store.list(caller, params(prefix="", after="", limit=9)),
        await store.delete(caller, params(key="a")),
    ]
    assert [msgspec.json.encode(answer) for answer in answers] == [
        b'{"value":null,"found":false}',
        b"{}",
        b'{"value":null,"found":true}',
        b'{"keys":["a"],"more":false}',
        b'{"deleted":true}',
    ]


async def test_plugins_do_not_see_each_other(store):
    names = ["notes", "Notes", "../notes", "notes.sqlite", "notes.sqlite-wal", "", ".", "\ud800", "é", "a\0b"]
    names += ["x" * 5000, "x" * 5001, "%2E", "notes%", "notes~"]
    for name in names:
        await Client(store, name).set("who", msgspec.json.encode(repr(name)))
    for name in names:
        assert await Client(store, name).get("who") == msgspec.json.encode(repr(name))
        assert file(store, name).parent == file(store).parent
        assert file(store, name).exists()


async def test_listing_goes_page_by_page_in_the_order_of_bytes(client):
    keys = ["a", "a\0", "a/1", "a/2", "a0", "b", "é", "\uffff", "\U0001f600", "\x7f"]
    for key in reversed(keys):
        await client.set(key, b"1")
    ordered = sorted(keys, key=str.encode)
    assert await client.list() == (ordered, False)
    assert await client.list(limit=len(keys)) == (ordered, False)
    assert await client.list(limit=3) == (ordered[:3], True)
    assert await client.list(after=ordered[2], limit=3) == (ordered[3:6], True)
    assert await client.list(prefix="a/") == (["a/1", "a/2"], False)
    assert await client.list(prefix="a/", after="a/1") == (["a/2"], False)
    assert await client.list(prefix="a/", after="Z") == (["a/1", "a/2"], False)
    assert await client.list(prefix="a/", after="b") == ([], False)
    assert await client.list(prefix="\U0001f600") == (["\U0001f600"], False)
    assert await client.list(after="a/15") == (ordered[ordered.index("a/2") :], False)


# Limits


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "a key must not be empty"),
        ("k" * (MAX_KEY + 1), "a key of 1025 bytes is over the limit of 1024"),
        ("é" * 513, "a key of 1026 bytes is over the limit of 1024"),
        ("\ud800", "a key must be valid Unicode, without unpaired surrogates"),
    ],
)
async def test_keys_have_limits(client, key, message):
    for ask in (client.get, client.delete, lambda key: client.set(key, b"1")):
        with pytest.raises(InvalidSpec) as caught:
            await ask(key)
        assert caught.value.message == message
    assert not file(client.store).exists()


async def test_the_largest_key_and_value_are_taken(tmp_path):
    store = Storage(tmp_path)
    client = Client(store, "notes")
    largest = b'"' + b"x" * (MAX_VALUE - 2) + b'"'
    for key in ("k" * MAX_KEY, "é" * 512):
        await client.set(key, largest)
        assert await client.get(key) == largest
    with pytest.raises(
        InvalidSpec, match=f"a value of {MAX_VALUE + 1} bytes is over the limit of {MAX_VALUE}"
    ):
        await client.set("k", largest + b" ")
    with pytest.raises(InvalidSpec, match="it must be JSON"):
        await client.set("k", b"")
    await store.close()


@pytest.mark.parametrize("limit", [0, -1, MAX_KEYS + 1, 2**80])
async def test_a_page_has_limits(client, limit):
    with pytest.raises(InvalidSpec, match="limit must be from 1 to 1000"):
        await client.list(limit=limit)
    with pytest.raises(InvalidSpec, match="a prefix of 1025 bytes"):
        await client.list(prefix="k" * 1025)


async def test_the_quota_is_exact_and_survives_reopening(tmp_path):
    for _again in range(2):
        store = Storage(tmp_path, quota=100)
        client = Client(store, "notes")
        await client.set("a", b"1" * 49)
        await client.set("b", b"2" * 49)
        with pytest.raises(Overloaded) as caught:
            await client.set("b", b"2" * 50)
        assert caught.value.message == (
            "51 bytes are over the plugin's quota: its other keys and values use 50 of 100"
        )
        with pytest.raises(Overloaded, match="its other keys and values use 100 of 100"):
            await client.set("c", b"1")
        assert await client.get("b") == b"2" * 49
        await client.delete("a")
        await client.set("c", b"3" * 49)
        await client.delete("c")
        await Client(store, "other").set("a", b"1" * 99)
        await store.close()


async def test_who_is_over_a_lowered_quota_may_shrink(tmp_path):
    store = Storage(tmp_path, quota=100)
    await Client(store, "notes").set("a", b"1" * 99)
    await store.close()
    store = Storage(tmp_path, quota=10)
    await Client(store, "notes").set("a", b"1" * 50)
    with pytest.raises(Overloaded):
        await Client(store, "notes").set("a", b"1" * 51)
    await store.close()


async def test_one_refusal_in_a_commit_is_nobody_elses(client):
    big = b"1" * (1 << 19)
    outcomes = await asyncio.gather(
        client.set("a", b"1"), client.set("b", big), client.set("c", big), client.set("d", b"4"), client.get("c"),
        return_exceptions=True,
    )  # fmt: skip
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        type(None),
        Overloaded,
        type(None),
        type(None),
    ]
    assert (await client.list())[0] == ["a", "b", "d"]


async def test_a_file_of_millions_of_tiny_values_has_an_end(tmp_path, monkeypatch):
    pages = tuple(setting for setting in quick_settings() if "max_page" not in setting)
    monkeypatch.setattr(sqlite_file, "SETTINGS", (*pages, "PRAGMA max_page_count = 20"))
    store = Storage(tmp_path)
    client = Client(store, "notes")
    outcomes = await asyncio.gather(*(client.set(f"{n}", b"1") for n in range(4000)), return_exceptions=True)
    full = [outcome for outcome in outcomes if outcome is not None]
    assert full
    assert {str(error) for error in full} == {
        f"overloaded: {file(store)} cannot grow: the disk is full, or the file has reached its maximum size"
    }
    assert await client.get("0") == b"1"
    assert await client.delete("0")
    await store.close()
    assert file(store).stat().st_size <= 20 * 4096


async def test_too_many_at_once_are_told_so(client, monkeypatch):
    monkeypatch.setattr(service, "MAX_WAITING", 10)
    outcomes = await asyncio.gather(*(client.set("k", b"1") for _ in range(12)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes if outcome] == [
        "overloaded: 10 storage requests of this plugin are already waiting"
    ] * 2
