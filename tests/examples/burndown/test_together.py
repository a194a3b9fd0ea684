"""Both plugins in a real host, on logs that are there and logs that grow."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time

import msgspec
import pytest

import plughost
from plughost.contracts.ainb.contract import Ainb
from plughost_sdk.chunks import nothing, split
from tests.support import ROOT, until
from tests.support.burndown import SAMPLES, answer, counters, log, reader_spec

SAMPLE_TOTAL = {
    "tokens": 271704,
    "input_tokens": 26740,
    "cache_creation_tokens": 87030,
    "cache_read_tokens": 140768,
    "output_tokens": 14990,
    "reasoning_tokens": 2176,
    "session_count": 5,
    "call_count": 14,
    "unpriced_calls": 1,
    "cost_usd": 0.745451,
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The samples, in a home where they may change."""
    place = tmp_path / "home"
    shutil.copytree(SAMPLES, place)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("AINB_HOME", raising=False)
    return place


def x(*words: str, home=SAMPLES, root="plugins"):
    allow = ["--allow", f"read={home}"]  # wherever this checkout lies: other users may not reach it
    command = [sys.executable, "-m", "plughost.cli", "x", *(["--root", root] if root else []), *allow, *words]
    env = {**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


async def shown(screen: Ainb, width: int = 100, height: int = 20) -> str:
    buffer = (await screen.render(width, height, deadline=60)).buffer
    lines = [[" "] * width for _ in range(height)]
    for place, cell in buffer.inside():
        lines[place.y][place.x] = cell.symbol
    return "\n".join("".join(line).rstrip() for line in lines)


async def shows(screen: Ainb, *words: str) -> str:
    """A frame with these words, as soon as there is one."""
    end = time.monotonic() + 30
    while True:
        text = await shown(screen)
        if all(word in text for word in words):
            return text
        assert time.monotonic() < end, f"no {words} in:\n{text}"
        await asyncio.sleep(0.01)


# The command line


@pytest.mark.clause("AINB-25", "AINB-33")
def test_usage_as_json_has_the_exact_totals_of_the_samples():
    ran = x("usage", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    told = json.loads(ran.stdout)
    assert (told["wire_version"], told["complete"], told["total"]) == (3, True, SAMPLE_TOTAL)
    rows = {
        table: [(row["name"], row["tokens"]) for row in told[table]]
        for table in ("days", "projects", "models")
    }
    assert rows["days"] == [
        ("2025-11-14", 29710), ("2025-11-13", 54577), ("2025-11-12", 70141), ("2025-11-11", 26510), ("2025-11-10", 90766),
    ]  # fmt: skip
    assert rows["projects"] == [("tea-timer", 186817), ("weather-station", 84887)]
    assert [name for name, _ in rows["models"]] == [
        "claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "gpt-5-codex", "gpt-5-mini", "nova-preview-1",
        "claude-haiku-4-5-20251001",
    ]  # fmt: skip
    assert told["projects"][0]["path"] == "/home/ada/tea-timer"
    (nova,) = [row for row in told["models"] if row["name"] == "nova-preview-1"]
    assert (nova["cost_usd"], nova["unpriced_calls"]) == (None, 1)
    for table in rows:
        assert sum(row["tokens"] for row in told[table]) == SAMPLE_TOTAL["tokens"]


def test_usage_as_text_and_its_help():
    ran = x("usage", "--by", "model")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["models", "tokens", "calls", "cost"]
    assert lines[-2].split() == ["total", "272k", "14", "$0.75", "+", "?"]
    assert lines[-1] == "? is the cost of 1 call to models without a known price"
    helped = x("usage", "--help")
    assert helped.returncode == 0
    assert all(word in helped.stdout for word in ("usage: usage", "--json", "--by", "--wait"))
    wrong = x("usage", "--nonsense")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--nonsense" in wrong.stderr


def test_what_was_read_and_what_was_left_out():
    told = json.loads(x("sessions", "--json").stdout)
    assert (told["complete"], told["files"], told["skipped_lines"], told["unreadable"]) == (True, 5, 1, {})
    assert told["bytes"] == sum(path.stat().st_size for path in SAMPLES.rglob("*.jsonl"))


def test_without_the_reader_usage_says_what_is_missing():
    ran = x("plugins/burndown", "usage", root=None)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "nobody publishes sessions.usage_data; a plugin such as session-reader must run" in ran.stderr


def test_x_prints_only_the_plugin_s_bytes(tmp_path):
    """Not what was left out of the root, nor who else has the namespace; that is told when the command fails."""
    root = tmp_path / "root"
    root.mkdir()
    for name in ("burndown", "session-reader"):
        (root / name).mkdir()
        for path in (ROOT / "plugins" / name).iterdir():
            if path.name == "manifest.toml":  # a link would lead into a checkout that may be private
                shutil.copy(path, root / name)
            else:
                (root / name / path.name).symlink_to(path)
    (root / "broken").mkdir()
    (root / "broken/manifest.toml").write_text("[plugin\n")
    twin = root / "zwilling"
    twin.mkdir()
    about = '[plugin]\nname = "zwilling"\nversion = "1.0.0"\nabi_version = 2\n'
    (twin / "manifest.toml").write_text(about + '[provides]\ncli_namespaces = ["usage"]\n')
    ran = x("usage", "--json", root=str(root))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["total"] == SAMPLE_TOTAL
    ran = x("no-such", root=str(root))
    assert ran.returncode == 2
    assert "skipped: " in ran.stderr
    assert "no plugin provides 'no-such'" in ran.stderr


@pytest.mark.parametrize("chunks", [1, 3])
async def test_usage_is_of_any_plugin_that_publishes_it(home, tmp_path, chunks):
    """As on a host without actions between plugins: asked for over the bus, in as many chunks as it likes."""
    place = tmp_path / "publisher"
    place.mkdir()
    manifest = (
        '[plugin]\nname = "publisher"\nversion = "1.0.0"\nabi_version = 2\n[capabilities]\nevent_bus = true\n'
    )
    (place / "manifest.toml").write_text(manifest + '[lifecycle]\nspawn = "eager"\n')
    (place / "publisher").write_text(PUBLISHER.format(python=sys.executable, chunks=chunks))
    (place / "publisher").chmod(0o755)
    async with plughost.Host() as host:
        await (await host.add(place)).start()
        ran = await Ainb(await host.add(ROOT / "plugins/burndown")).cli("usage", ["--json"])
    assert (ran.exit_code, ran.stderr) == (0, b"")
    told = json.loads(ran.stdout)
    assert (told["complete"], told["total"]["input_tokens"]) == (True, 77)


PUBLISHER = """#!{python}
from plughost_sdk import ainb, chunks

plugin = ainb.Plugin()

@plugin.on("sessions.refresh_request")
def publish(payload):
    data = chunks.nothing()
    data["grand_total"]["input_tokens"] = 77
    call = dict(model="m", project="p", project_path="/p", timestamp="2026-01-01T00:00:00Z")
    data["calls"] = [call] * ({chunks} - 1)
    for chunk in chunks.split(data, 5, target=1):
        plugin.host.snapshot.publish("sessions.usage_data", chunk)

plugin.run()
"""


async def test_a_reader_that_could_read_nothing_does_not_publish_a_complete_zero(home):
    """A host that gives out no files (the original one answers -32601, or denies them) must not look like no usage."""
    from plughost import config

    spec = config.load_folder(ROOT / "plugins/session-reader")
    async with plughost.Host() as host:
        reader = await host.add(msgspec.structs.replace(spec, grants=("event_bus",)))
        await Ainb(reader).cli("sessions", ["--json"])
        snapshots = host.service("snapshots")
        await until(lambda: snapshots.latest("sessions.usage_data").payload)
        told = msgspec.msgpack.decode(snapshots.latest("sessions.usage_data").payload)
        assert (told["partial"], told["data"]["grand_total"]["call_count"]) == (True, 0)
        usage = await Ainb(await host.add(ROOT / "plugins/burndown")).cli("usage", ["--json", "--wait", "1"])
        assert json.loads(usage.stdout)["complete"] is False


async def test_no_logs_at_all_are_a_complete_zero(home):
    shutil.rmtree(home / ".claude")
    shutil.rmtree(home / ".codex")
    ran = await asyncio.to_thread(x, "usage", "--json", home=home)
    assert (json.loads(ran.stdout)["complete"], ran.returncode) == (True, 0)


@pytest.mark.clause("AINB-43")
async def test_usage_tells_a_schema_mismatch(home):
    async def another(caller, payload):
        return msgspec.msgpack.encode({"version": 4})

    async with plughost.Host() as host:
        host.service("actions").register("sessions", another)
        ran = await Ainb(await host.add(ROOT / "plugins/burndown")).cli("usage", ["--json"])
    assert (ran.exit_code, ran.stdout) == (3, b"")
    assert b"schema mismatch: published is version 4, this reads 3" in ran.stderr


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
async def test_usage_does_not_tell_a_cost_that_is_no_number(home, cost):
    async def odd(caller, payload):
        (chunk,) = split({**nothing(), "grand_total": {**nothing()["grand_total"], "cost_usd": cost}}, 7)
        return chunk

    async with plughost.Host() as host:
        host.service("actions").register("sessions", odd)
        ran = await Ainb(await host.add(ROOT / "plugins/burndown")).cli("usage", ["--json"])
    assert (ran.exit_code, ran.stdout) == (3, b"")
    assert b"no usage: " in ran.stderr


# In a host that stays


async def test_a_screen_follows_logs_that_grow(home):
    async with plughost.Host() as host:
        await host.add(reader_spec())
        screen = Ainb(await host.add(ROOT / "plugins/burndown"))
        await shows(screen, "272k tokens", "$0.75 + ?", "2025-11-14")
        (grows, *_) = sorted((home / ".claude/projects/-home-ada-tea-timer").iterdir())
        with grows.open("ab") as file:
            file.write(log(answer(77, output=1_000_000, timestamp="2025-11-15T10:00:00.000Z"))[:-9])
            file.flush()
            file.write(log(answer(77, output=1_000_000, timestamp="2025-11-15T10:00:00.000Z"))[-9:])
        await shows(screen, "1.3M tokens", "2025-11-15")
        new = home / ".codex/sessions/2025/11/16/rollout-new.jsonl"
        new.parent.mkdir(parents=True)
        new.write_bytes(log(counters((5_000_000, 0, 0, 0))))
        await shows(screen, "6.3M tokens", "16 calls")


async def test_a_refresh_is_answered_with_everything_and_hard_reads_it_again(home):
    async with plughost.Host() as host:
        heard = []
        bus = host.service("snapshots")
        bus.listen("sessions.usage_data", lambda payload: heard.append(msgspec.msgpack.decode(payload)))
        await host.add(reader_spec())
        await until(lambda: heard and not heard[-1]["partial"])
        heard.clear()
        bus.put("sessions.refresh_request", b"")
        await until(lambda: heard)
        assert (heard[-1]["partial"], len(heard[-1]["data"]["calls"])) == (False, 14)
        (gone, *_) = (home / ".claude/projects/-home-ada-weather-station").iterdir()
        gone.unlink()
        heard.clear()
        bus.put("sessions.refresh_request", msgspec.msgpack.encode({"hard": True}))
        await until(lambda: heard and not heard[-1]["partial"])
        assert heard[-1]["data"]["grand_total"]["call_count"] == 11


async def test_a_screen_that_comes_late_is_filled_at_once(home):
    """What was published before it came is gone but for the last chunk, so it asks."""
    async with plughost.Host() as host:
        heard = []
        host.service("snapshots").listen("sessions.usage_data", heard.append)
        await host.add(reader_spec())
        await until(lambda: heard)
        screen = Ainb(await host.add(ROOT / "plugins/burndown"))
        await shows(screen, "272k tokens")


async def test_links_that_lead_out_and_what_may_not_be_read_are_told(home):
    (home / "secret.jsonl").write_bytes(log(answer(5)))
    (home / ".claude/projects/out.jsonl").symlink_to(home / "secret.jsonl")
    os.mkfifo(home / ".codex/sessions/pipe.jsonl")
    async with plughost.Host() as host:
        reader = Ainb(await host.add(reader_spec()))
        told = json.loads((await reader.cli("sessions", ["--json"])).stdout)
    assert sorted(told["unreadable"]) == [
        f"{home}/.claude/projects/out.jsonl",
        f"{home}/.codex/sessions/pipe.jsonl",
    ]
    assert "capability denied: read_claude_logs" in told["unreadable"][f"{home}/.claude/projects/out.jsonl"]


async def test_folders_that_are_not_looked_into_are_told(home):
    projects = home / ".claude/projects"
    outside = home / "elsewhere"
    outside.mkdir()
    (outside / "a.jsonl").write_bytes(log(answer(5)))
    (projects / "linked").symlink_to(outside)
    (projects / "inside").symlink_to("-home-ada-tea-timer")
    (projects / "notes.txt").write_text("nothing of interest")
    deep = projects.joinpath(*map(str, range(12)))
    deep.mkdir(parents=True)
    (deep / "b.jsonl").write_bytes(log(answer(6)))
    async with plughost.Host() as host:
        reader = Ainb(await host.add(reader_spec()))
        told = json.loads((await reader.cli("sessions", ["--json"])).stdout)
    assert told["files"] == 5
    assert told["unreadable"] == {
        f"{projects}/0/1/2/3/4/5/6/7/8": "more than 8 folders deep: not looked into",
        f"{projects}/inside": "a link to a folder: not followed",
        f"{projects}/linked": "a link that leads out: not followed",
    }


async def test_the_reader_has_only_what_it_was_granted(home):
    spec = msgspec.structs.replace(reader_spec(), grants=("event_bus", "read_codex_logs"))
    async with plughost.Host() as host:
        reader = await host.add(spec)
        payload = (await Ainb(reader).cli("sessions", ["--json"])).stdout
    told = json.loads(payload)
    assert told["files"] == 2
    assert told["unreadable"] == {f"{home}/.claude/projects": "capability denied: read_claude_logs"}


def test_the_samples_are_small_and_of_nobody():
    files = [*SAMPLES.rglob("*.jsonl")]
    assert len(files) == 5
    assert sum(path.stat().st_size for path in files) < 20_000
    text = "".join(path.read_text() for path in files)
    assert all(part.startswith("/home/ada/") for part in text.split('"cwd":"')[1:])
