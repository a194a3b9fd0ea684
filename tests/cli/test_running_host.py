"""Commands that find a plugin in a running host before they start another."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import msgspec
import pytest

from plughost.control import ControlClient
from tests.support import all_gone, plugin_processes, until
from tests.support.ainb import folder
from tests.support.running_host import PLUGHOST, ROOT, command, puppets, running, toml
from tests.support.vai import package, spec, tool


@pytest.fixture
def sockets(tmp_path):
    return tmp_path / "s"


@pytest.fixture
def config(tmp_path, mark):
    file = tmp_path / "plughost.toml"
    file.write_text(toml(puppets(mark, "first")))
    return file


async def test_call_and_inspect_find_a_plugin_by_its_name_and_new_starts_another(
    config, sockets, tmp_path, mark
):
    async with running(sockets, "-c", config) as host, ControlClient(host.path) as client:
        there = ("--socket-dir", sockets)
        ran = await command("call", *there, "first", "echo", "[1]")
        assert (ran.stdout, ran.stderr, ran.returncode) == ("[1]\n", "", 0)
        (seen,) = (await client.ps())["plugins"]
        assert seen["metrics"]["calls"] == 1
        shown = json.loads((await command("inspect", *there, "first", "--json")).stdout)
        assert (shown["state"], shown["metrics"]["calls"]) == ("Running", 1)
        assert "Running" in (await command("inspect", *there, "first")).stdout
        # The plugin's own error is the answer, as it is for a process of one's own.
        error = '{"code":7,"message":"no"}'
        ran = await command("call", *there, "first", "error", error)
        assert (ran.returncode, json.loads(ran.stdout)) == (1, {"error": json.loads(error)})
        for words in (("--new", "first"), ("-c", config, "first")):
            ran = await command("call", *there, *words, "echo", "2", cwd=tmp_path)
            assert (ran.stdout, ran.returncode) == ("2\n", 0), ran.stderr
        assert (await client.inspect("first"))["metrics"]["calls"] == 2
        for chosen in (host.process.pid, host.path):
            ran = await command("call", *there, "--host", chosen, "first", "echo", "3")
            assert ran.stdout == "3\n", ran.stderr
        for words, why in (
            (("--host", "1", "first"), "no host with the process id 1 is running"),
            (("--host", host.process.pid, "nobody"), "has no plugin 'nobody'"),
            (("--host", host.process.pid, "--new", "first"), "give one of them"),
            (("--host", host.process.pid, "--env", "A=B", "first"), "start a new process"),
        ):
            ran = await command("call", *there, *words, "ping")
            assert (ran.returncode, why in ran.stderr) == (2, True), ran.stderr
    await all_gone(mark)


async def test_methods_are_those_of_the_running_plugin(config, sockets, mark):
    described = config.read_text() + '[plugins.first.methods.echo]\ntitle = "Says it again"\n'
    config.write_text(described)
    async with running(sockets, "-c", config):
        config.write_text(described.replace("again", "never"))  # the host has not read this
        ran = await command("methods", "--socket-dir", sockets, "first")
        assert (ran.stdout.split(maxsplit=2), ran.returncode) == (["echo", "method", "Says it again\n"], 0)
        ran = await command("methods", "--socket-dir", sockets, "--start", "first", "--json")
        assert [entry["source"] for entry in json.loads(ran.stdout)["methods"]] == ["operator"], ran.stderr
        ran = await command("methods", "--socket-dir", sockets, "first", "second")
        assert (ran.returncode, "unexpected: second" in ran.stderr) == (2, True)
    await all_gone(mark)


async def test_of_two_hosts_with_one_plugin_name_one_must_be_chosen(config, sockets, mark):
    async with running(sockets, "-c", config) as one, running(sockets, "-c", config) as other:
        ran = await command("call", "--socket-dir", sockets, "first", "ping")
        assert ran.returncode == 2
        assert all(f"{host.process.pid} ({host.path})" in ran.stderr for host in (one, other))
        assert "--host PID" in ran.stderr
        ran = await command("call", "--socket-dir", sockets, "--host", other.process.pid, "first", "ping")
        assert ran.stdout == '"pong"\n'
        ran = await command("restart", "--socket-dir", sockets, "--host", one.process.pid, "first")
        assert ran.returncode == 0, ran.stderr


async def test_x_runs_in_a_running_plugin(sockets, tmp_path, mark):
    root = tmp_path / mark
    folder(root, "lazy", provides={"cli_namespaces": ["other"]})
    async with running(sockets, "--root", root) as host, ControlClient(host.path) as client:
        ran = await asyncio.to_thread(
            subprocess.run,
            [*PLUGHOST, "x", "--socket-dir", sockets, "other", "--json", "--host"],
            capture_output=True,
            cwd=tmp_path,
            timeout=60,
        )
        assert (ran.stdout, ran.stderr, ran.returncode) == (b"other --json --host\n\xff", b"warned\n", 7)
        assert (await client.inspect("lazy"))["metrics"]["calls"] == 1


@pytest.mark.serial
async def test_ctrl_c_cancels_the_call_and_the_plugin_runs_on(sockets, tmp_path, mark):
    place = spec(package(tmp_path, mark))
    (tmp_path / "plughost.toml").write_text(
        f'[plugins.puppet]\ncontract = "vai"\ncwd = "{place.cwd}"\ncommand = {json.dumps(list(place.command))}\n'
        'sandbox = "none"\n'
    )
    async with running(sockets, "-c", tmp_path / "plughost.toml") as host, ControlClient(host.path) as client:
        (plugin,) = (await client.ps())["plugins"]
        params = json.dumps(msgspec.to_builtins(tool(do="wait")))
        calling = subprocess.Popen(
            [*PLUGHOST, "call", "--progress", "--socket-dir", sockets, plugin["name"], "tool.invoke", params],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert b'"started"' in await asyncio.to_thread(calling.stderr.readline)
        calling.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(calling.wait, 30) == 130
        calling.communicate()
        while not (seen := await client.inspect(plugin["name"]))["metrics"]["cancelled"]:
            pass
        answer = await client.call(plugin["name"], "tool.invoke", tool())
        told = answer["result"]["structured_output"]["told"]
        assert [frame["type"] for frame in told if isinstance(frame, dict)] == ["cancel"]
        assert seen["instances"][0]["pid"] == plugin["instances"][0]["pid"]
    await all_gone(mark)


@pytest.mark.parametrize("how", ["verb", "SIGHUP", "--watch"])
async def test_a_changed_plughost_toml_is_applied(config, sockets, mark, how):
    config.write_text(toml(puppets(mark, "first", "second")))
    more = ["--watch"] if how == "--watch" else []
    async with running(sockets, "-c", config, *more) as host, ControlClient(host.path) as client:
        before = plugin_processes(mark)
        config.write_text(toml(puppets(mark, "first", "second", "third")))
        if how == "verb":
            ran = await command("reload", "--socket-dir", sockets)
            assert (ran.stdout, ran.returncode) == ("added: third\n", 0), ran.stderr
        if how == "SIGHUP":
            host.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(30):
            while [each["state"] for each in (await client.ps())["plugins"]] != ["Running"] * 3:
                pass
        assert await client.call("third", "ping") == "pong"
        assert plugin_processes(mark)[:2] == before
        config.write_text("not TOML")
        ran = await command("reload", "--socket-dir", sockets)
        assert (ran.returncode, "plughost.toml:1" in ran.stderr) == (2, True), ran.stderr
        assert await client.call("second", "ping") == "pong"


async def test_ps_shows_full_names_and_what_is_measured_and_the_last_error(sockets, tmp_path, mark):
    name = "a-plugin-with-a-name-that-is-longer-than-any-column-of-a-narrow-terminal-would-be"
    (tmp_path / "plughost.toml").write_text(toml(puppets(mark, name)))
    async with running(sockets, "-c", tmp_path / "plughost.toml") as host, ControlClient(host.path) as client:
        await client.call(name, "echo", 1)
        shown = (await command("ps", "--socket-dir", sockets)).stdout.splitlines()
        heads, row = shown
        assert heads.split() == [
            "host", "plugin", "contract", "sandbox", "state", "gen", "pid", "uptime", "restarts", "memory", "cpu",
            "calls", "failed", "p50", "p99",
        ]  # fmt: skip
        cells = dict(zip(heads.split(), row.split(), strict=True))
        assert (cells["host"], cells["plugin"], cells["calls"]) == (str(host.process.pid), name, "1")
        (pid,) = plugin_processes(mark)
        subprocess.run(["kill", "-9", str(pid)], check=True)
        while (await client.inspect(name))["state"] != "Quarantined":
            pass
        shown = (await command("ps", "--socket-dir", sockets)).stdout
        assert f"{name}: crashed: " in shown
        ran = await command("start", "--socket-dir", sockets, name, "--json")
        assert json.loads(ran.stdout) == {"done": "start", "plugin": name}
        shown = (await command("ps", "--socket-dir", sockets)).stdout
        assert "last error, " in shown
        assert "SIGKILL" in shown
        (logged,) = (await command("logs", "--socket-dir", sockets, name)).stdout.splitlines()
        assert f"{name} error (failed): crashed: it was killed by SIGKILL" in logged
        watching = subprocess.Popen(
            [*PLUGHOST, "ps", "--watch", "--json", "--socket-dir", sockets], stdout=subprocess.PIPE, cwd=ROOT
        )
        try:
            for _ in range(2):
                document = json.loads(await asyncio.to_thread(watching.stdout.readline))
                assert document["hosts"][0]["plugins"][0]["metrics"]["restarts"] == 1
        finally:
            watching.kill()
            watching.communicate()
    await until(lambda: not plugin_processes(mark))


async def test_a_quarantined_plugin_says_why_and_the_command_that_brings_it_back(config, sockets, mark):
    there = ("--socket-dir", sockets)
    async with running(sockets, "-c", config) as host, ControlClient(host.path) as client:
        await client.call("first", "stderr", "no database\n")
        assert (await command("call", *there, "first", "exit", "4")).returncode == 3
        ran = await command("call", *there, "first", "ping")
        assert (ran.returncode, ran.stdout) == (3, "")
        assert "will not be restarted: it exited with code 4" in ran.stderr
        assert "  no database\n" in ran.stderr
        assert ran.stderr.endswith("hint: fix what failed, then reload it: `plughost reload first`\n")
        assert (await command("reload", *there, "first")).returncode == 0
        assert (await command("call", *there, "first", "ping")).stdout == '"pong"\n'


async def test_a_plugin_that_hangs_says_that_it_still_runs_and_the_command_that_ends_it(
    config, sockets, mark
):
    there = ("--socket-dir", sockets)
    async with running(sockets, "-c", config):
        assert (await command("call", *there, "first", "deaf")).returncode == 0
        (pid,) = plugin_processes(mark)
        ran = await command("call", *there, "first", "ping", "--timeout", "0.2")
        assert (ran.returncode, ran.stdout) == (3, "")
        assert "no answer to 'ping' within 0.2 s" in ran.stderr
        assert "it still runs, and the call was cancelled" in ran.stderr
        assert "`plughost restart first` ends it" in ran.stderr
        assert plugin_processes(mark) == [pid]
        assert (await command("restart", *there, "first")).returncode == 0
        assert (await command("call", *there, "first", "ping")).stdout == '"pong"\n'
        assert pid not in plugin_processes(mark)


async def test_what_listens_in_place_of_a_host_is_named(tmp_path):
    async def answer(reader, writer):
        await reader.readline()
        writer.write(b'{"id":1,"result":{"hello":"there"}}\n')

    async with await asyncio.start_unix_server(answer, tmp_path / "x"):
        ran = await command("call", "--host", tmp_path / "x", "first", "ping")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"what listens at {tmp_path / 'x'} is not a plughost host" in ran.stderr
