"""What is seen of a plugin in every state it can be in, over real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager

import pytest

import plughost
from plughost.contracts.ainb.contract import KeyEvent
from plughost.contracts.ainb.messages import Char
from plughost.screens.frame_source import FrameSource
from plughost.screens.session import follow_plugins, open_session
from plughost.screens.terminal.error_panel import panel_rows, unresponsive_panel
from tests.support import seen, until, vouched
from tests.support.screens import easel, inputs

SIZE = (60, 12)
GENTLE = {"backoff": [30.0], "failure_limit": 3}


class Seen:
    """What a feed shows, as text."""

    def __init__(self) -> None:
        self.text = ""
        self.sights = 0
        self.changed: list[object] = []
        self.size = SIZE
        self.ready = True

    def viewport(self):
        return self.size

    def accepts_frames(self) -> bool:
        return self.ready

    def show_view(self, screen_view) -> None:
        self.text = "\n".join("".join(run.text for run in row).rstrip() for row in screen_view.rows)
        self.sights += 1
        self.changed.append(screen_view.changed)


@asynccontextmanager
async def watched(place, **settings):
    """A feed of the plugin in that folder, and what is seen of it."""
    async with open_session([vouched(place)], []) as ((plugin,), *_):
        source = FrameSource(plugin, **{"rate": 60, **settings})
        seen = Seen()
        async with follow_plugins([source]):
            watching = asyncio.create_task(source.watch(seen))
            try:
                yield plugin.host, source, seen
            finally:
                watching.cancel()
                source.kill_if_hung()
    assert watching.done()


def press(source: FrameSource, letter: str) -> bool:
    return source.key("main", KeyEvent(Char(letter)))


@pytest.mark.clause("AINB-22", "AINB-62")
async def test_looking_at_a_lazy_plugin_starts_it_and_a_new_size_is_drawn_at_once(tmp_path):
    async with watched(easel(tmp_path)) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        assert source.state == "Running"
        seen.size = (40, 5)
        source.wake()
        await until(lambda: "40x5" in seen.text)


@pytest.mark.clause("AINB-23")
async def test_keys_go_to_the_plugin_and_the_next_frame_shows_it(tmp_path):
    file = tmp_path / "inputs"
    async with watched(easel(tmp_path, env={"INPUTS": str(file)})) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        assert press(source, "x")
        await until(lambda: "key x 0" in seen.text)
    assert [(kind, params["screen_id"]) for kind, params, _ in inputs(file)] == [("key", "main")]


@pytest.mark.clause("AINB-22", "AINB-29")
async def test_a_plugin_that_draws_nothing_is_shown_as_unresponsive_until_it_draws_again(tmp_path):
    async with watched(easel(tmp_path), deadline=0.2) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        press(source, "h")
        await until(lambda: "easel is unresponsive" in seen.text)
        assert source.state == "Unresponsive"
        assert "Press r" in seen.text
        assert source.dropped > 0
        press(source, "u")
        await until(lambda: "60x12" in seen.text)
        assert source.state == "Running"


@pytest.mark.clause("AINB-22")
async def test_a_hung_plugin_can_be_ended_and_started_anew(tmp_path):
    async with watched(easel(tmp_path), deadline=0.2) as (host, source, look):
        await until(lambda: "60x12" in look.text)
        first = look.text
        press(source, "h")
        await until(lambda: "is unresponsive" in look.text)
        source.restart()
        await until(lambda: "60x12" in look.text and look.text != first)
        assert (source.state, seen(host.plugins["easel"])["failures"]) == ("Running", 0)


@pytest.mark.clause("AINB-61")
async def test_a_crash_is_told_with_the_last_words_and_what_happens_next(tmp_path):
    async with watched(easel(tmp_path, **GENTLE)) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        press(source, "c")
        await until(lambda: "easel has crashed" in seen.text)
        await until(lambda: "ouch, said the easel" in seen.text)
        assert "it exited with code 3" in seen.text
        assert "starts it again by itself" in seen.text
        assert "\x1b" not in seen.text
        assert source.state == "Backoff"
        assert not press(source, "x"), "nobody is there to get it"
        source.restart()
        await until(lambda: "60x12" in seen.text)


@pytest.mark.clause("AINB-60", "AINB-61")
async def test_a_plugin_that_comes_back_by_itself_is_seen_again(tmp_path):
    async with watched(easel(tmp_path, backoff=[0.05])) as (host, source, look):
        await until(lambda: "60x12" in look.text)
        first = look.text
        os.kill(seen(host.plugins["easel"])["pid"], signal.SIGKILL)
        await until(lambda: "60x12" in look.text and look.text != first)
        assert source.state == "Running"


@pytest.mark.clause("AINB-61")
async def test_a_quarantined_plugin_stays_so_until_somebody_restarts_it(tmp_path):
    async with watched(easel(tmp_path, failure_limit=1)) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        press(source, "c")
        await until(lambda: "easel is quarantined" in seen.text)
        assert "does not restart it again" in seen.text
        assert "it exited with code 3" in seen.text
        source.restart()
        await until(lambda: "60x12" in seen.text)


async def test_a_plugin_that_cannot_be_started_again_says_why(tmp_path):
    place = easel(tmp_path, failure_limit=1)
    async with watched(place) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        press(source, "c")
        await until(lambda: "is quarantined" in seen.text)
        manifest = (place / "manifest.toml").read_text()
        (place / "manifest.toml").write_text(manifest.replace("abi_version = 2", "abi_version = 3"))
        source.restart()
        await until(lambda: "has been stopped" in seen.text and "abi" in seen.text)
        (place / "manifest.toml").write_text(manifest)
        source.restart()
        await until(lambda: "60x12" in seen.text)


@pytest.mark.clause("AINB-26")
@pytest.mark.parametrize(("letter", "why"), [("e", "no paint"), ("w", "width"), ("~", "not JSON")])
async def test_an_answer_that_is_no_frame_is_told_and_the_next_one_is_asked_for(tmp_path, letter, why):
    async with watched(easel(tmp_path)) as (_, source, seen):
        await until(lambda: "60x12" in seen.text)
        press(source, letter)
        await until(lambda: "easel gave no frame" in seen.text)
        assert why in seen.text
        press(source, "x")
        await until(lambda: "key x" in seen.text)


async def test_only_what_has_changed_is_told_and_a_still_picture_is_asked_for_seldom(tmp_path):
    async with watched(easel(tmp_path)) as (_, source, seen):
        await until(lambda: source.frames > 12)
        assert seen.changed[-1] == []
        press(source, "x")
        await until(lambda: "key x" in seen.text)
        assert [1] in seen.changed


@pytest.mark.clause("AINB-29")
async def test_frames_are_dropped_while_the_terminal_takes_no_more(tmp_path):
    async with watched(easel(tmp_path, env={"MOVING": "1"})) as (_, source, seen):
        await until(lambda: source.frames > 3)
        seen.ready = False
        before = source.dropped
        await until(lambda: source.dropped > before + 3)
        drawn = source.frames
        await until(lambda: source.dropped > before + 6)
        assert source.frames == drawn
        seen.ready = True
        await until(lambda: source.frames > drawn)


@pytest.mark.clause("AINB-63")
async def test_a_plugin_that_nobody_looks_at_is_not_drawn(tmp_path):
    async with open_session([vouched(easel(tmp_path))], []) as ((shown,), *_):
        source, plugin = FrameSource(shown, 60), shown.plugin
        look = Seen()
        async with follow_plugins([source]):
            watching = asyncio.create_task(source.watch(look))
            await until(lambda: source.frames > 1)
            assert plugin._pins
            watching.cancel()
            await asyncio.wait([watching])
            assert not plugin._pins
            drawn = source.frames
            await plugin.call("anything")
            assert source.frames == drawn


def test_a_panel_fits_any_size_and_obeys_nothing():
    error_panel = unresponsive_panel(3)._replace(why="\x1b[2Jboo " * 30)
    for width, height in ((80, 24), (1, 1), (3, 30), (200, 2)):
        rows = panel_rows("a\x1bb", error_panel, ["\x1b[31mred", "漢" * 300], width, height)
        assert len(rows) == height
        assert all(sum(run.columns for run in row) == width for row in rows)
        assert all(run.text.isprintable() for row in rows for run in row)


def test_a_panel_wraps_wide_characters_by_their_columns():
    error_panel = unresponsive_panel(3)._replace(why="漢字" * 30, remedy="")
    rows = ["".join(run.text for run in row).strip() for row in panel_rows("loud", error_panel, [], 44, 24)]
    assert "".join(rows[2:5]) == "漢字" * 30


@pytest.mark.timeout(30)
def test_a_panel_wraps_no_more_of_a_message_than_it_has_room_for():
    for words in ("a" * 15_000_000, "\x1b-" * 7_000_000):
        error_panel = unresponsive_panel(3)._replace(why=words, remedy=words)
        rows = ["".join(run.text for run in row) for row in panel_rows("loud", error_panel, [words], 80, 24)]
        assert len(rows) == 24
        assert any("Press r" in row for row in rows)


async def test_the_others_of_a_root_are_there_for_it_and_a_broken_one_is_no_matter(tmp_path):
    shown, other = easel(tmp_path, "shown"), easel(tmp_path, "other", spawn="eager")
    broken = easel(tmp_path, "broken", env={"ROWS": "no JSON"}, spawn="eager", failure_limit=1)
    specs = [vouched(place) for place in (shown, other, broken)]
    async with open_session(specs[:1], specs[1:]) as ((plugin,), *_):
        host = plugin.host
        await until(lambda: "other" in host.plugins and host.plugins["other"].state == "Running")
        await until(lambda: "broken" in host.plugins and host.plugins["broken"].state == "Quarantined")
        assert isinstance(host, plughost.Host)
        assert json.dumps(host.plugins["shown"].state) == '"Idle"'
