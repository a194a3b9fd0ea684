"""The app without a terminal: tabs, keys and the mouse, through the library's own pilot."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseDown, MouseUp, Paste

from plughost.contracts.ainb.messages import BOLD, REVERSED
from plughost.screens.frame_source import FrameSource
from plughost.screens.session import follow_plugins, open_session
from plughost.screens.terminal.app import ScreenApp
from plughost.screens.terminal.chrome import TabLabel, status_line, tab_columns, tab_line
from tests.support import until, vouched
from tests.support.screens import easel, inputs


def text(app: ScreenApp, which: str = "canvas") -> str:
    return "\n".join(
        strip.text
        for strip in app.query_one(f"#{which}").render_lines(app.query_one(f"#{which}").size.region)
    )


@asynccontextmanager
async def shown(*tab_columns, size=(60, 12), **settings):
    specs = [vouched(place) for place in tab_columns]
    async with open_session(specs, []) as (plugins, *_):
        sources = {plugin.name: FrameSource(plugin, 60, **settings) for plugin in plugins}
        tabs = [
            TabLabel(sources[plugin.name], screen)
            for plugin in plugins
            for screen in plugin.plugin.provides["screens"]
        ]
        app = ScreenApp(tabs)
        async with follow_plugins(list(sources.values())), app.run_test(size=size) as pilot:
            yield app, pilot, tabs


@pytest.mark.clause("AINB-23", "AINB-41")
async def test_what_is_typed_and_what_the_mouse_does_goes_to_the_plugin(tmp_path):
    file = tmp_path / "inputs"
    async with shown(easel(tmp_path, env={"INPUTS": str(file)})) as (app, pilot, _):
        await until(lambda: "60x11" in text(app))
        await pilot.press("x", "ctrl+c", "tab", "shift+tab", "escape", "ctrl+p", "q", "f5")
        await pilot.click("#canvas", offset=(7, 2))
        app.query_one("#canvas").post_message(Paste("ok\n"))
        await until(lambda: len(inputs(file)) >= 13)
        noted = inputs(file)
    codes = [params["key"]["code"] for kind, params, _ in noted if kind == "key"]
    assert [code.get("ch", code["type"]) for code in codes] == [
        "x", "c", "tab", "back_tab", "esc", "p", "q", "f", "o", "k", "enter",
    ]  # fmt: skip
    mice = [params["mouse"] for kind, params, _ in noted if kind == "mouse"]
    assert [
        (each["kind"]["type"], each["col"], each["row"]) for each in mice if each["kind"]["type"] != "moved"
    ] == [
        ("down", 7, 2),
        ("up", 7, 2),
    ]


async def test_a_button_that_was_pressed_over_the_screen_is_released_there_wherever_the_mouse_is(tmp_path):
    file = tmp_path / "inputs"
    place = easel(tmp_path, screens=("one", "two"), env={"INPUTS": str(file)})
    async with shown(place) as (app, pilot, _):
        await until(lambda: "60x10" in text(app))
        for beside in ("#status", "#tabs"):
            await pilot.mouse_down("#canvas", offset=(7, 2))
            await pilot.mouse_up(beside, offset=(20, 0))
        for kind, x, y, button in (
            (MouseDown, 7, 3, 1), (MouseDown, 7, 3, 3), (MouseUp, 7, 3, 1), (MouseUp, 20, 11, 3),
        ):  # fmt: skip
            app.post_message(kind(None, x, y, 0, 0, button, False, False, False))
            await pilot.pause()
        await pilot.click("#tabs", offset=(15, 0))
        await pilot.press("x")
        await until(lambda: any(kind == "key" for kind, *_ in inputs(file)))
        assert [params["screen_id"] for kind, params, _ in inputs(file) if kind == "key"] == ["two"]
    mice = [params["mouse"] for kind, params, _ in inputs(file) if kind == "mouse"]
    assert [
        (each["kind"]["type"], each["col"], each["row"]) for each in mice if each["kind"]["type"] in ("down", "up")
    ] == [
        ("down", 7, 2), ("up", 20, 9), ("down", 7, 2), ("up", 20, 0),
        ("down", 7, 2), ("down", 7, 2), ("up", 7, 2), ("up", 20, 9),
    ]  # fmt: skip


async def test_tabs_turn_and_only_the_one_that_is_seen_is_drawn(tmp_path, monkeypatch):
    watch, watched = FrameSource.watch, Counter[str]()

    async def counted(source, viewer):
        watched[source.name] += 1
        try:
            await watch(source, viewer)
        finally:
            watched[source.name] -= 1

    monkeypatch.setattr(FrameSource, "watch", counted)
    tab_columns = easel(tmp_path, "first", screens=("one", "two")), easel(tmp_path, "second")
    async with shown(*tab_columns) as (app, pilot, tabs):
        await until(lambda: "60x10" in text(app))
        first, second = tabs[0].source, tabs[2].source
        assert (first.state, second.state) == ("Running", "Idle"), "nobody has looked at it yet"
        assert text(app, "tabs").split() == ["first/one", "first/two", "second/main"]
        await pilot.press("ctrl+pagedown", "ctrl+pagedown")
        await until(lambda: second.frames > 1)
        assert +watched == {"second": 1}
        drawn = first.frames
        await until(lambda: second.frames > 5)
        assert first.frames == drawn
        await until(lambda: "second/main  Running" in text(app, "status"))
        await pilot.click("#tabs", offset=(3, 0))
        await until(lambda: first.frames > drawn)
        await pilot.press("ctrl+pageup")
        await until(lambda: "second/main" in text(app, "status"))


@pytest.mark.clause("AINB-22", "AINB-61")
async def test_a_plugin_in_trouble_leaves_the_others_usable_and_r_restarts_it(tmp_path):
    tab_columns = easel(tmp_path, "sick", failure_limit=1), easel(tmp_path, "well")
    async with shown(*tab_columns) as (app, pilot, _):
        await until(lambda: "60x10" in text(app))
        await pilot.press("r")
        await until(lambda: "key r" in text(app)), "while it is well, r is its own"
        await pilot.press("c")
        await until(lambda: "sick is quarantined" in text(app))
        await until(lambda: "sick/main  Quarantined" in text(app, "status"))
        await pilot.press("ctrl+pagedown")
        await until(lambda: "nothing yet" in text(app))
        await pilot.press("x")
        await until(lambda: "key x" in text(app))
        await pilot.press("ctrl+pageup")
        await until(lambda: "sick is quarantined" in text(app))
        await pilot.press("r")
        await until(lambda: "nothing yet" in text(app))


async def test_a_new_size_reaches_the_plugin(tmp_path):
    async with shown(easel(tmp_path)) as (app, pilot, _):
        await until(lambda: "60x11" in text(app))
        await pilot.resize_terminal(30, 6)
        await until(lambda: "30x5" in text(app))


async def test_the_lines_around_a_screen_have_its_new_size_too(tmp_path):
    async with shown(easel(tmp_path, screens=("one", "two")), size=(14, 6)) as (app, pilot, _):
        await until(lambda: "14x4" in text(app))
        assert "easel/two" not in text(app, "tabs")
        await pilot.resize_terminal(120, 6)
        await until(lambda: "120x4" in text(app))
        assert text(app, "tabs").split() == ["easel/one", "easel/two"]
        assert text(app, "status").endswith("Ctrl+Q leaves ")


@pytest.mark.parametrize("height", [1, 2, 3])
async def test_however_low_it_is_there_are_no_scrollbars(tmp_path, height):
    async with shown(easel(tmp_path, screens=("one", "two")), size=(40, height)) as (app, pilot, _):
        await until(lambda: "easel/one" in text(app, "tabs"))
        await pilot.pause()
        assert app.screen.scrollbars_enabled == (False, False)
        assert app.query_one("#tabs").size == (40, 1)


async def test_a_click_beside_the_screen_does_not_take_the_keyboard_away(tmp_path):
    async with shown(easel(tmp_path)) as (app, pilot, _):
        await until(lambda: "60x11" in text(app))
        await pilot.click("#status", offset=(3, 0))
        await pilot.press("x")
        await until(lambda: "key x" in text(app))


async def test_nor_does_one_outside_of_everything(tmp_path):
    async with shown(easel(tmp_path)) as (app, pilot, _):
        await until(lambda: "60x11" in text(app))
        app.post_message(MouseDown(None, 99998, 99998, 0, 0, 1, False, False, False))
        await pilot.press("x")
        await until(lambda: "key x" in text(app))


class Fed:
    name, state, took, dropped = "plugin", "Running", 0.0042, 3


@pytest.mark.parametrize("width", [200, 80, 50, 20, 1])
def test_the_lines_fit_any_width(width):
    tabs = [TabLabel(Fed(), "one"), TabLabel(Fed(), "two")]
    for row in (status_line(tabs, 0, 29.6, width), tab_line(tabs, 0, width), tab_line(tabs, 1, width)):
        assert sum(run.columns for run in row) == width


@settings(deadline=None)
@given(st.lists(st.text("ab漢é", max_size=12), min_size=1, max_size=6), st.integers(0, 5), st.integers(1, 60))
def test_the_chosen_tab_is_in_sight_and_others_are_seen_whole_or_not_at_all(names, chosen, width):
    tabs = [TabLabel(Fed(), name) for name in names]
    chosen %= len(tabs)
    row = tab_line(tabs, chosen, width)
    told = "".join(run.text for run in row)
    assert sum(run.columns for run in row) == cell_len(told) == width
    seen = tab_columns(tabs, chosen, width)
    assert list(seen) == list(range(min(seen), max(seen) + 1)), "in their order, none left out between"
    for number, (start, end) in seen.items():
        title = f" {tabs[number].title} "
        assert end <= width
        assert cell_len(title) == end - start or list(seen) == [chosen]
    [lit] = [run.text for run in row if run.modifier]
    assert f" {tabs[chosen].title} ".startswith(lit.rstrip())
    if len(seen) == len(tabs):
        assert "…" not in told


def test_tabs_that_do_not_fit_make_room_for_the_chosen_one():
    tabs = [TabLabel(Fed(), name) for name in ("one", "two", "three", "four")]

    def told(chosen: int, width: int) -> str:
        return "".join(run.text for run in tab_line(tabs, chosen, width))

    assert told(0, 60) == " plugin/one   plugin/two   plugin/three   plugin/four       "
    assert told(0, 30) == " plugin/one   plugin/two  …   "
    assert told(1, 30) == " plugin/one   plugin/two  …   "
    assert told(2, 29) == "…  plugin/three  …           "
    assert told(3, 30) == "…  plugin/three   plugin/four "
    assert told(3, 8) == " plugin/"


async def test_a_click_on_a_tab_is_meant_for_the_one_that_is_seen_there(tmp_path):
    place = easel(tmp_path, screens=("one", "two", "three", "four"))
    async with shown(place, size=(30, 8)) as (app, pilot, _):
        await until(lambda: "30x6" in text(app))
        await pilot.press("ctrl+pageup")
        await until(lambda: text(app, "tabs") == "…  easel/three   easel/four   ")
        await pilot.click("#tabs", offset=(5, 0))
        await until(lambda: "easel/three" in text(app, "status"))


def test_the_status_tells_state_frame_time_rate_and_dropped_frames():
    [run] = status_line([TabLabel(Fed(), "one")], 0, 29.6, 100)
    assert run.text.startswith(" plugin/one  Running  4.2 ms  30/s  3 dropped ")
    assert run.text.endswith("Ctrl+Q leaves ")
    assert [each.modifier for each in tab_line([TabLabel(Fed(), "one"), TabLabel(Fed(), "two")], 1, 40)] == [
        0,
        REVERSED | BOLD,
        0,
    ]


def test_tabs_in_any_script_have_the_place_that_their_titles_take():
    tabs = [TabLabel(Fed(), "漢字"), TabLabel(Fed(), "cafe\u0301"), TabLabel(Fed(), "two")]
    assert [end - start for start, end in tab_columns(tabs, 0, 60).values()] == [13, 13, 12]
    assert "".join(run.text for run in tab_line(tabs, 0, 60)).split() == [
        "plugin/漢字",
        "plugin/café",
        "plugin/two",
    ]
    told = "".join(run.text for run in status_line(tabs[:1], 0, 29.6, 80))
    assert told.endswith("Ctrl+Q leaves ")
    assert cell_len(told) == 80
