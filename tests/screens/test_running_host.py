"""Screens of a plugin that a running host keeps running, through its control socket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from contextlib import asynccontextmanager

import pytest

from plughost.control import Control, ControlClient, HostLost
from plughost.errors import PluginError, Stopped
from plughost.screens.frame_source import FrameSource
from plughost.screens.picture.capture import capture
from plughost.screens.session import follow_plugins, join_session
from tests.screens.test_frame_source import GENTLE, Seen, press
from tests.support import all_gone, plugin_process, plugin_processes, until, vouched
from tests.support.running_host import command, running
from tests.support.screens import Terminal, easel, inputs, screen_command


@asynccontextmanager
async def viewed(path, *, size=(60, 12), **settings):
    """A viewer of the easel of the host at that socket."""
    async with join_session(path, "easel") as ((plugin,), *_):
        source, seen = FrameSource(plugin, **{"rate": 60, **settings}), Seen()
        seen.size = size
        async with follow_plugins([source]):
            watching = asyncio.create_task(source.watch(seen))
            try:
                yield source, seen
            finally:
                watching.cancel()
                source.kill_if_hung()


@pytest.fixture
async def door(host, tmp_path):
    async with Control(host, tmp_path / "s", lambda: None) as door:
        yield door


def born(text: str) -> str:
    """Which process has drawn this."""
    found = re.search(r"born (\d+)", text)
    assert found, text
    return found[1]


@pytest.mark.clause("AINB-22", "AINB-23", "AINB-29")
async def test_two_viewers_of_different_sizes_see_one_plugin_and_its_keys(host, door, tmp_path):
    plugin = await host.add(vouched(easel(tmp_path)))
    async with viewed(door.path) as (source, seen), viewed(door.path, size=(30, 5)) as (other, look):
        await until(lambda: "60x12" in seen.text and "30x5" in look.text)
        assert (source.state, other.state, plugin.state) == ("Running", "Running", "Running")
        assert plugin.pinned
        assert press(source, "x")
        await until(lambda: "key x 0" in seen.text and "key x 0" in look.text)
        assert press(other, "y")
        await until(lambda: "key y 0" in seen.text and "key y 0" in look.text)
        frames = source.frames, other.frames
        await until(lambda: source.frames > frames[0] + 3 and other.frames > frames[1] + 3)
    await until(lambda: not plugin.pinned)
    assert plugin.state == "Running"


@pytest.mark.clause("AINB-29")
async def test_a_hung_plugin_outlives_its_viewers_and_r_restarts_it_in_its_host(host, door, tmp_path):
    place = easel(tmp_path, shutdown_grace=0.2)
    plugin = await host.add(vouched(place))
    async with viewed(door.path, deadline=0.2) as (source, seen):
        await until(lambda: "60x12" in seen.text)
        pid = plugin_process(f"{place}/easel")
        press(source, "h")
        await until(lambda: "easel is unresponsive" in seen.text)
        assert source.state == "Unresponsive"
        async with viewed(door.path, deadline=0.2) as (_, look):
            await until(lambda: "easel is unresponsive" in look.text)
            assert plugin.inspect()["instances"][0]["in_flight"] == 1
    async with viewed(door.path, deadline=0.2) as (source, seen):
        await until(lambda: "easel is unresponsive" in seen.text)
        assert (plugin.state, plugin_process(f"{place}/easel")) == ("Running", pid), (
            "leaving does not kill it"
        )
        source.restart()
        await until(lambda: "60x12" in seen.text)
        assert source.state == "Running"
        assert plugin_process(f"{place}/easel") != pid
        assert host.plugins["easel"].pinned


@pytest.mark.clause("AINB-61")
async def test_a_crash_is_shown_with_its_reason_and_the_last_lines_on_stderr(host, door, tmp_path):
    await host.add(vouched(easel(tmp_path, **GENTLE)))
    async with viewed(door.path) as (source, seen), ControlClient(door.path) as client:
        await until(lambda: "60x12" in seen.text)
        press(source, "c")
        await until(lambda: "easel has crashed" in seen.text and "ouch, said the easel" in seen.text)
        assert "it exited with code 3" in seen.text
        assert source.state == "Backoff"
        await client.stop("easel")
        await until(lambda: "easel has been stopped" in seen.text)
        assert "code 3" not in seen.text
        source.restart()
        await until(lambda: "60x12" in seen.text)


async def test_looking_does_not_start_a_plugin_that_the_operator_has_stopped(host, door, tmp_path):
    await host.add(vouched(easel(tmp_path)))
    async with ControlClient(door.path) as client:
        await client.stop("easel")
    async with viewed(door.path) as (_, seen):
        await until(lambda: seen.sights > 2)
        assert "easel has been stopped" in seen.text
    assert "easel" not in host.plugins


async def test_a_picture_of_a_plugin_that_does_not_run_says_why_and_does_not_start_it(host, door, tmp_path):
    place = easel(tmp_path, failure_limit=1)
    plugin = await host.add(vouched(place))
    await plugin.start()
    os.kill(plugin_process(f"{place}/easel"), signal.SIGKILL)
    await until(lambda: plugin.state == "Quarantined")
    async with join_session(door.path, "easel") as ((shown,), *_):
        with pytest.raises(PluginError, match="will not be restarted"):
            await capture(shown, 40, 6, None, [])
    assert plugin.state == "Quarantined"


async def test_a_change_of_state_is_told_as_it_happens(host, door, tmp_path):
    await host.add(vouched(easel(tmp_path)))
    changed = asyncio.Event()
    async with join_session(door.path, "easel") as ((plugin,), *_), ControlClient(door.path) as client:
        following = asyncio.create_task(plugin.follow(changed.set))
        assert plugin.state == "Idle"
        await client.stop("easel")
        await asyncio.wait_for(changed.wait(), 30)
        assert plugin.state == "Stopped"
        following.cancel()


async def test_a_viewer_is_told_when_the_host_stops(host, tmp_path):
    await host.add(vouched(easel(tmp_path)))
    door = Control(host, tmp_path / "s", lambda: None)
    await door.__aenter__()
    with pytest.raises(Stopped, match="the host is stopping"):
        async with viewed(door.path) as (_, seen):
            await until(lambda: "60x12" in seen.text)
            await door.__aexit__(None, None, None)
            await until(lambda: "gave no frame" in seen.text)


async def test_a_picture_that_is_to_be_drawn_later_fails_as_soon_as_the_host_stops(host, tmp_path):
    plugin = await host.add(vouched(easel(tmp_path)))
    door = Control(host, tmp_path / "s", lambda: None)
    await door.__aenter__()
    async with join_session(door.path, "easel") as ((shown,), *_):
        drawing = asyncio.create_task(capture(shown, 40, 6, 600.0, []))
        await until(lambda: plugin.pinned)
        await door.__aexit__(None, None, None)
        with pytest.raises(Stopped, match="the host is stopping"):
            await asyncio.wait_for(drawing, 30)


async def test_a_killed_host_is_told_at_once(tmp_path):
    place = easel(tmp_path)
    lost = asyncio.Event()
    async with (
        running(tmp_path / "s", "-c", place / "plughost.toml") as host,
        join_session(host.path, "easel") as ((plugin,), *_),
    ):
        with pytest.raises(HostLost, match=f"the host at {host.path} has ended"):
            async with follow_plugins([FrameSource(plugin)], lost.set):
                host.process.send_signal(signal.SIGKILL)
                await asyncio.wait_for(lost.wait(), 30)
    await all_gone(f"{place}/easel")


async def test_pictures_are_drawn_of_the_running_plugin_unless_another_is_wanted(tmp_path):
    root = tmp_path / "dist/plugins"
    place = easel(root)
    sockets, file = tmp_path / "s", tmp_path / "x.svg"
    config = place / "plughost.toml"

    async def drawn(*words: object) -> str:
        ran = await command("screen", "--socket-dir", sockets, *words, "--svg", file, "--json", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["plugin"] == "easel"
        return born(file.read_text())

    async with running(sockets, "-c", config) as one:
        assert (
            await command("screen", "--socket-dir", sockets, "easel", "--png", tmp_path / "x.png")
        ).returncode == 0
        assert (tmp_path / "x.png").stat().st_size > 100
        first = await drawn("easel")
        (pid,) = plugin_processes(f"{place}/easel")
        assert await drawn("easel", "main") == first
        for new in (("--new", "easel"), ("--root", root, "easel"), (place,)):
            assert await drawn(*new) != first
        async with running(sockets, "-c", config) as other:
            ran = await command("screen", "--socket-dir", sockets, "easel", "--svg", file)
            assert (ran.returncode, "choose one with --host PID" in ran.stderr) == (2, True), ran.stderr
            assert await drawn("--host", one.process.pid, "easel") == first
            assert await drawn("--host", other.path, "easel") != first
        for words, why in (
            (("easel", "nothing"), "easel has no screen 'nothing'"),
            (("--host", one.process.pid, "nobody"), "has no plugin 'nobody'"),
            (("--host", one.process.pid, place), "start a new process"),
            (("--host", one.process.pid), "start a new process"),
            (("--new", "nobody"), "no plugin 'nobody' in dist/plugins; known: easel"),
            (("nobody",), "no plugin 'nobody' in dist/plugins, and no running host has it"),
        ):
            ran = await command("screen", "--socket-dir", sockets, *words, "--svg", file, cwd=tmp_path)
            assert (ran.returncode, why in ran.stderr) == (2, True), ran.stderr
        assert plugin_processes(f"{place}/easel") == [pid]
        await command("stop", "--socket-dir", sockets, "easel")
        ran = await command("screen", "--socket-dir", sockets, "easel", "--svg", file)
        assert ran.returncode == 2
        assert "its state is Stopped" in ran.stderr
        assert "`plughost start easel`" in ran.stderr
    await all_gone(f"{place}/easel")


@pytest.mark.serial
async def test_in_a_terminal_keys_reach_the_running_plugin_which_runs_on_afterwards(tmp_path):
    file = tmp_path / "inputs"
    place, sockets = easel(tmp_path, env={"INPUTS": str(file)}), tmp_path / "s"
    async with running(sockets, "-c", place / "plughost.toml") as host, ControlClient(host.path) as client:
        words = screen_command("--socket-dir", str(sockets), "easel")
        with Terminal(words) as terminal:
            shown = born(terminal.until("80x23"))
            (seen,) = (await client.ps())["plugins"]
            pid = seen["instances"][0]["pid"]
            terminal.press("x")
            terminal.until("key x 0")
            terminal.press("C-c")
            terminal.until("key c 2")
            terminal.type("\x1b[<0;5;3M")
            terminal.until("mouse down 4,2")
            terminal.press("C-q")
            terminal.until("left with 0")
            assert terminal.modes() == "0 0 1"
        (seen,) = (await client.ps())["plugins"]
        assert (seen["state"], seen["instances"][0]["pid"]) == ("Running", pid)
        with Terminal(words) as terminal:
            assert born(terminal.until("80x23")) == shown
            terminal.press("y")
            terminal.until("key y 0")
            terminal.hang_up()
        assert (await client.inspect("easel"))["instances"][0]["pid"] == pid
    keys = [params for kind, params, _ in inputs(file) if kind == "key"]
    assert [each["key"]["code"]["ch"] for each in keys] == ["x", "c", "y"]
    generations = [each["generation"] for each in keys]
    assert generations == sorted(set(generations)), "later keys have higher numbers, whoever pressed them"


@pytest.mark.serial
@pytest.mark.parametrize(("how", "why"), [(signal.SIGKILL, "has ended"), (signal.SIGTERM, "is stopping")])
async def test_when_the_host_ends_the_viewer_leaves_and_says_so(tmp_path, how, why):
    place, sockets = easel(tmp_path, env={"MOVING": "1"}), tmp_path / "s"
    async with running(sockets, "-c", place / "plughost.toml") as host:
        with Terminal(screen_command("--socket-dir", str(sockets), "easel")) as terminal:
            terminal.until("80x23")
            os.kill(host.process.pid, how)
            screen = terminal.until(lambda screen: re.search(r"left with \d+\n\d", screen))
            assert re.search(r"left with 3\n1\n", screen), "the terminal is as it was"
            assert "the host" in screen
            assert why in screen
            assert terminal.modes() == "0 0 1"
    await all_gone(f"{place}/easel")
