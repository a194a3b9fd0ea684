"""plugins/notes-ts: a plugin as they are found in the wild runs as it is, when it is granted what it needs."""

from __future__ import annotations

import os
import re
import shutil

import pytest

import plughost
from plughost.contracts.kaged.contract import Kaged, KagedContext
from plughost.events import Exited, Linted
from plughost.testing import VirtualClock
from tests.support import ROOT, seen, until
from tests.support.confinable import PATH, open_folder
from tests.support.notes import ELSEWHERE, HERE, compiled, copied, spec

MKDIR = f"exec:mkdir:{shutil.which('mkdir')}"
MISSING = 'mkdir ENOENT|not found in \\$PATH: "mkdir"'
"""As Node says it, or Bun."""
SHIPPED = "command: [node, ./bin/main.js]"


@pytest.fixture(scope="module")
def bun():
    """A folder with bun, where plugins of a root host can reach it; None where there is none."""
    shipped = (ROOT / "plugins/notes-ts/node_modules/@oven").glob("bun-linux-*/bin/bun")
    found = next((str(path) for path in shipped), shutil.which("bun"))
    if found is None:
        yield None
        return
    with open_folder() as folder:
        shutil.copy(found, folder / "bun")
        yield folder


@pytest.fixture(params=["node", "bun"])
def place(request, ground):
    """The plugin as it is shipped, for Node; and its source as it is, with a command as they are found."""
    if request.param == "node":
        compiled()
        return copied("notes-ts", ground)
    folder = request.getfixturevalue("bun")
    if folder is None and not os.environ.get("CI"):
        pytest.skip("there is no bun: `make setup` brings it where there is Node with npm")
    request.getfixturevalue("monkeypatch").setenv("PATH", f"{folder}:{PATH}")
    place = copied("notes-ts", ground)
    commanded(place, "[/usr/bin/env, bun, ./src/main.ts]")
    shutil.rmtree(place / "bin", ignore_errors=True)
    return place


def commanded(place, command):
    manifest = place / "kaged-plugin.yaml"
    text = manifest.read_text()
    assert SHIPPED in text
    manifest.write_text(text.replace(SHIPPED, f"command: {command}"))


@pytest.fixture
async def host():
    async with plughost.Host() as host:
        yield host


def shown(host, word):
    return [line.message for line in host.service("logs").recent("notes-ts") if re.search(word, line.message)]


@pytest.mark.clause("KAGED-07", "KAGED-11", "KAGED-12")
async def test_it_fails_visibly_without_the_program_it_forgot_to_declare_and_works_with_its_grant(
    host, ground, place
):
    plugin = await host.add(spec(place, "declared"))
    assert plugin.sandbox == "strict"
    notes = Kaged(plugin)
    with pytest.raises(plughost.CallFailed, match=MISSING) as caught:
        await notes.tool("retain", {"content": "Tea is at five"}, context=HERE)
    assert caught.value.error["code"] == -32603
    await until(lambda: shown(host, MISSING))
    await host.remove("notes-ts")
    if (place / "bin").exists():  # Bun looks for programs with stat, of which no sandbox can tell
        (denied,) = shown(host, "not granted")
        assert denied.endswith(f'(to allow it, grants = ["{MKDIR}"] or --grant {MKDIR})')

    notes = Kaged(await host.add(spec(place, "declared", MKDIR)))
    answer = await notes.tool("retain", {"content": "Tea is at five", "tags": ["Tea"]}, context=HERE)
    stored = ground / f"data/notes-ts/memory/p1/agent/{answer['id']}.md"
    assert stored.read_text().endswith("\nTea is at five")
    await host.plugins["notes-ts"].reload()
    found = await notes.tool("recall", {"query": "when is TEA?"}, context=HERE)
    assert [(note["id"], note["content"]) for note in found["results"]] == [(answer["id"], "Tea is at five")]
    assert await notes.tool("list_tags", {}, context=HERE) == {"tags": ["tea"], "count": 1}
    assert await notes.hook("on_session_start", {}, context=HERE) == {"inject": "- Tea is at five"}
    assert await notes.hook("on_session_start", {}, context=ELSEWHERE) == {}
    await notes.tool("retain", {"content": "x"}, context=KagedContext(project_id=".."))
    assert sorted(os.listdir(ground / "data/notes-ts/memory")) == ["dots-..", "p1"]
    for status in ("forgotten", "not_found"):
        params = {"id": answer["id"]}
        assert await notes.tool("forget", params, context=HERE) == {"status": status, **params}
    assert not stored.exists()


@pytest.mark.clause("KAGED-34")
async def test_its_refusals_reach_the_caller_as_they_are(host, place):
    notes = Kaged(await host.add(spec(place, "declared")))
    for tool, params in (
        ("retain", {}),
        ("forget", {"id": "../../x"}),
        ("recall", {"query": 1}),
        ("recall", {"query": "", "max_results": 0}),
    ):
        with pytest.raises(plughost.CallFailed) as caught:
            await notes.tool(tool, params)
        assert caught.value.error["code"] == -32602
    with pytest.raises(plughost.CallFailed) as caught:
        await notes.tool("retain", {"content": "x" * 102_401})
    told = {"code": "content_too_large", "actual_bytes": 102_401, "max_bytes": 102_400}
    assert (caught.value.error["code"], caught.value.error["data"]) == (-32000, told)


@pytest.mark.clause("KAGED-25")
async def test_more_than_one_message_holds_is_left_out_and_said(host, place):
    notes = Kaged(await host.add(spec(place, "declared", MKDIR)))
    for number in range(45):
        await notes.tool("retain", {"content": f"tea {number} " + "漢" * 34_000}, context=HERE)
    answer = await notes.tool("recall", {"query": "tea", "max_results": 100}, context=HERE)
    assert (answer["count"], answer["left_out"]) == (len(answer["results"]), 45 - answer["count"])
    assert 35 < answer["count"] < 40
    few = await notes.tool("recall", {"query": "tea", "max_results": 5}, context=HERE)
    assert (few["count"], "left_out" in few) == (5, False)


@pytest.mark.clause("KAGED-28")
async def test_what_is_compacted_is_kept(host, place):
    notes = Kaged(await host.add(spec(place, "declared", MKDIR)))
    said = {"messages_being_compacted": "é" * 60_000 + " we chose green"}
    assert await notes.hook("post_compact", said, context=HERE) == {"retain": []}
    assert await notes.hook("pre_compact", {}, context=HERE) is None
    assert await notes.hook("on_session_idle", {"transcript": "x"}, context=HERE) is None
    (kept,) = (await notes.tool("recall", {"query": "green", "tags": ["compacted"]}, context=HERE))["results"]
    assert len(kept["content"].encode()) <= 102_400


@pytest.mark.clause("KAGED-07", "KAGED-22", "KAGED-23", "KAGED-24")
async def test_its_looseness_is_told_it_stays_well_by_ping_and_ends_with_its_stdin(place):
    clock = VirtualClock()
    async with plughost.Host(clock=clock) as host:
        with host.events() as told:
            plugin = await host.add(spec(place, "declared"))
            await plugin.call("notes-ts.list_tags")
            events = list(iter(told.take, None))
            said = [event.what for event in events if isinstance(event, Linted)]
            lints = " ".join([*plugin.inspect()["lints"], *said])
            for word in ("manifest.yaml", "methods", "roles", "knobs", "0.1.0"):
                assert word in lints
            for _ in range(3):
                clock.advance(30)
                await plugin.call("notes-ts.list_tags")
            assert (plugin.state, seen(plugin)["in_flight"], seen(plugin)["dropped"]) == ("Running", 0, 0)
            await plugin.stop()
            exits = [event for event in iter(told.take, None) if isinstance(event, Exited)]
    assert [(event.expected, event.exit_status) for event in exits] == [(True, 0)]


@pytest.mark.clause("KAGED-11")
async def test_a_command_that_begins_with_env_runs_as_without_it(host, ground):
    compiled()
    place = copied("notes-ts", ground)
    commanded(place, "[/usr/bin/env, node, ./bin/main.js]")
    notes = Kaged(await host.add(spec(place, "declared")))
    assert await notes.tool("list_tags") == {"tags": [], "count": 0}
