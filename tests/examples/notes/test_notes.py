"""plugins/notes as an operator runs it: confined, with the host's own storage."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest

import plughost
from plughost.contracts.kaged.contract import Kaged
from plughost.services.storage.service import Storage
from tests.support import ROOT, seen, until
from tests.support.confinable import PUBLIC_PYTHON
from tests.support.notes import ELSEWHERE, HERE, copied, spec


@pytest.fixture
def place(ground):
    return copied("notes", ground, PUBLIC_PYTHON)


@pytest.fixture
async def host(tmp_path):
    async with plughost.Host() as host:
        host.provide("storage", Storage(tmp_path / "storage"))
        yield host


@pytest.fixture
async def notes(host, place):
    return Kaged(await host.add(spec(place, "declared")))


async def retain(notes, content, *tags, context=HERE):
    return (await notes.tool("retain", {"content": content, "tags": [*tags]}, context=context))["id"]


async def recalled(notes, query, *tags, context=HERE, **more):
    answer = await notes.tool("recall", {"query": query, "tags": [*tags], **more}, context=context)
    assert answer["count"] == len(answer["results"])
    assert answer["query"] == query
    return [note["content"] for note in answer["results"]]


async def tags(notes, context=HERE):
    answer = await notes.tool("list_tags", {}, context=context)
    assert answer["count"] == len(answer["tags"])
    return answer["tags"]


async def refused(notes, tool, params):
    with pytest.raises(plughost.CallFailed) as caught:
        await notes.tool(tool, params)
    return caught.value.error


@pytest.mark.clause("KAGED-11", "KAGED-29")
async def test_what_is_retained_is_recalled_by_relevance_and_gone_when_it_is_forgotten(host, notes):
    assert host.plugins["notes"].sandbox == "strict"
    tea = await retain(notes, "Tea is at five on the terrace", "Tea", " house ")
    await retain(notes, "The terrace is closed on Monday", "house")
    await retain(notes, "Somebody else's terrace", "house", context=ELSEWHERE)
    assert await recalled(notes, "tea on the terrace?") == [
        "Tea is at five on the terrace",
        "The terrace is closed on Monday",
    ]
    assert await recalled(notes, "terrace", max_results=1) == ["The terrace is closed on Monday"]
    assert await recalled(notes, "terrace", "house", "TEA") == ["Tea is at five on the terrace"]
    assert await recalled(notes, "", "house") == [
        "The terrace is closed on Monday",
        "Tea is at five on the terrace",
    ]
    assert await recalled(notes, "terrace", "nothing") == await recalled(notes, "coffee") == []
    assert await tags(notes) == ["house", "tea"]
    for status in ("forgotten", "not_found"):
        assert await notes.tool("forget", {"id": tea}, context=HERE) == {"status": status, "id": tea}
    assert await recalled(notes, "tea") == []
    assert await tags(notes) == ["house"]
    assert await recalled(notes, "terrace", context=ELSEWHERE) == ["Somebody else's terrace"]


async def test_a_note_comes_back_with_all_that_was_said_about_it(notes):
    kept = {"content": "日本の茶 \u2028 'x' \x00", "context": "about tea", "tags": ["b:c", "a/%"]}
    number = (await notes.tool("retain", kept, context=ELSEWHERE))["id"]
    answer = await notes.tool("recall", {"query": "ABOUT"}, context=ELSEWHERE)
    (note,) = answer["results"]
    assert note.pop("score") > 0
    assert note.pop("created_at").endswith("+00:00")
    assert note == {
        **kept,
        "id": number,
        "agent_path": "primary.subagents.x",
        "tags": ["a/%", "b:c"],
    }
    assert await tags(notes, ELSEWHERE) == ["a/%", "b:c"]


async def test_what_cannot_be_is_refused_with_its_reason(notes):
    for tool, params in [
        ("retain", {}),
        ("retain", {"content": 1}),
        ("retain", {"content": "x", "tags": "y"}),
        ("retain", {"content": "x", "tags": [" "]}),
        ("retain", {"content": "x", "tags": ["y" * 257]}),
        ("retain", {"content": "x", "tags": [str(number) for number in range(33)]}),
        ("retain", {"content": "x", "context": 1}),
        ("recall", {}),
        ("recall", {"query": "x", "max_results": 0}),
        ("recall", {"query": "x", "max_results": True}),
        ("forget", {}),
        ("forget", {"id": "../../x"}),
        ("forget", {"id": "0123456789abcdef\n"}),
        ("forget", [1]),
    ]:
        assert (await refused(notes, tool, params))["code"] == -32602, (tool, params)
    assert await recalled(notes, "", context=HERE) == []
    assert (await notes.tool("retain", {"content": "é" * 51_200}))["status"] == "stored"
    too_large = await refused(notes, "retain", {"content": "é" * 51_200 + "x"})
    assert too_large["code"] == -32000
    assert too_large["data"] == {"code": "content_too_large", "actual_bytes": 102_401, "max_bytes": 102_400}


@pytest.mark.clause("KAGED-25")
async def test_more_than_one_message_holds_is_left_out_and_said(notes):
    for number in range(45):
        await retain(notes, f"tea {number} " + "漢" * 34_000)
    answer = await notes.tool("recall", {"query": "tea", "max_results": 100}, context=HERE)
    assert (answer["count"], answer["left_out"]) == (len(answer["results"]), 45 - answer["count"])
    assert 35 < answer["count"] < 40, "as much as there is room for, each character in three bytes"
    few = await notes.tool("recall", {"query": "tea", "max_results": 5}, context=HERE)
    assert (few["count"], "left_out" in few) == (5, False)
    too_large = await refused(notes, "retain", {"content": "x", "context": "x" * 3_999_800})
    assert (too_large["code"], too_large["data"]["code"]) == (-32000, "message_too_large")


async def test_half_of_a_character_is_refused_and_harms_nobody(notes):
    assert (await refused(notes, "retain", msgspec.Raw(rb'{"content": "\ud83c"}')))["code"] == -32602
    assert await recalled(notes, "") == []


@pytest.mark.clause("KAGED-28")
async def test_a_session_starts_with_what_fits_and_what_is_compacted_is_kept(notes):
    assert await notes.hook("on_session_start", {}, context=HERE) == {}
    for number in range(7):
        await retain(notes, f"fact {number}")
    await retain(notes, "y" * 9000, context=ELSEWHERE)
    fitting = await notes.hook("on_session_start", {"prompt": "what of 3?"}, context=HERE)
    assert fitting == {"inject": "Notes from before:\n- fact 3"}
    newest = {"inject": "Notes from before:\n- fact 6\n- fact 5\n- fact 4\n- fact 3\n- fact 2"}
    assert await notes.hook("on_session_start", {}, context=HERE) == newest
    assert await notes.hook("on_session_start", {"prompt": "unheard"}, context=HERE) == newest
    assert len((await notes.hook("on_session_start", {}, context=ELSEWHERE))["inject"]) == 4000
    said = {"messages_being_compacted": "é" * 60_000 + " we chose green", "strategy": "drop"}
    assert await notes.hook("post_compact", said, context=HERE) == {"retain": []}
    (kept,) = await recalled(notes, "green", "compacted")
    assert kept.endswith("we chose green")
    assert len(kept.encode()) <= 102_400
    assert await notes.hook("post_compact", {"messages_being_compacted": ""}, context=HERE) == {"retain": []}
    assert len(await recalled(notes, "", "compacted")) == 1


@pytest.mark.clause("KAGED-29")
async def test_all_is_there_after_a_kill_a_reload_and_in_another_host(ground, place, tmp_path):
    """As many as make more than one window of questions to the host."""
    contents = {f"note {number}" for number in range(70)}
    async with plughost.Host() as host:
        host.provide("storage", Storage(tmp_path / "storage"))
        plugin = await host.add(spec(place, "declared", backoff=[0.01]))
        notes = Kaged(plugin)
        await asyncio.gather(*(retain(notes, content, "n") for content in contents))
        os.kill(seen(plugin)["pid"], signal.SIGKILL)
        await until(lambda: plugin.state != "Running")
        assert {*await recalled(notes, "note", max_results=100)} == contents
        await plugin.reload()
        assert {*await recalled(notes, "note", "n", max_results=100)} == contents
    async with plughost.Host() as host:
        host.provide("storage", Storage(tmp_path / "storage"))
        notes = Kaged(await host.add(spec(place, "declared")))
        assert {*await recalled(notes, "note", max_results=100)} == contents
        assert await tags(notes) == ["n"]


@pytest.mark.clause("KAGED-29")
async def test_what_was_acknowledged_is_there_after_the_host_was_killed(host, place, tmp_path):
    command = [sys.executable, "-m", "tests.support.retaining_host", str(place), str(tmp_path / "storage")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        acknowledged = set()
        for line in process.stdout:
            acknowledged.add(line.strip())
            if len(acknowledged) == 20:
                process.kill()  # what it wrote until then is still read
    assert process.returncode == -signal.SIGKILL
    notes = Kaged(await host.add(spec(place, "declared")))
    for words in (["note"], ["note", "kept"], ["", "kept"]):
        found = {*await recalled(notes, *words, max_results=100)}
        assert acknowledged <= found
        assert len(found - acknowledged) <= 1  # the one that was under way


@pytest.mark.clause("KAGED-22", "KAGED-29")
async def test_without_the_grant_of_storage_it_does_not_start_and_says_what_it_lacks(host, place):
    plugin = await host.add(spec(place, "kaged:storage:read", failure_limit=1))
    with pytest.raises(plughost.HandshakeFailed, match="'kaged:storage:write' is not granted"):
        await plugin.call("notes.list_tags")


async def test_trouble_with_the_storage_is_told_as_the_host_told_it(host, place):
    host.provide("storage", None)
    notes = Kaged(await host.add(spec(place, "declared")))
    error = await refused(notes, "retain", {"content": "x"})
    assert (error["code"], error["data"]["code"]) == (-32000, "host_refused")
    assert error["data"]["error"]["code"] == -32601
