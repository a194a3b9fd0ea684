"""One frame as a picture: the same every time, in its cells, without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from PIL import Image

from plughost.contracts.ainb.messages import (
    BOLD,
    DIM,
    ITALIC,
    REVERSED,
    UNDERLINED,
    Cell,
    Color,
    Coord,
    WireBuffer,
)
from plughost.errors import InvalidSpec, Timeout
from plughost.host import Host
from plughost.screens.colors import DEFAULT_BG, DEFAULT_FG, resolve_style
from plughost.screens.local_plugin import LocalScreenPlugin
from plughost.screens.picture import capture as stills
from plughost.screens.picture import fonts
from plughost.screens.picture.png_image import PngDrawer, render_png
from plughost.screens.picture.svg import HIGH, WIDE, render_svg
from plughost.screens.render import Span, render
from plughost.screens.session import open_session
from plughost.testing import VirtualClock
from tests.support import ROOT, all_gone, until, vouched
from tests.support.command_line import run_here
from tests.support.screens import easel, screen_command

RED, BLUE = Color(255, 0, 0), Color(0, 0, 255)


@pytest.fixture
def family():
    try:
        return fonts.find_font()
    except InvalidSpec:
        if os.environ.get("CI"):
            raise
        pytest.skip("there is no monospace font here (Debian: apt-get install fonts-dejavu-core)")


def rendering(*cells: Cell, rows: int = 1):
    placed = [(Coord(x, 0), cell) for x, cell in enumerate(cells)]
    return render(WireBuffer(len(cells), rows, placed), len(cells), rows)


def plughost(*words, **more):
    return subprocess.run(
        screen_command(*words),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        stdin=subprocess.DEVNULL,
        **more,
    )


@pytest.mark.clause("AINB-40")
def test_modifiers_are_in_the_colours():
    assert resolve_style(Span("x", 1)) == (DEFAULT_FG, DEFAULT_BG, False, False, False)
    assert resolve_style(Span("x", 1, RED, BLUE, REVERSED))[:2] == (BLUE, RED)
    assert resolve_style(Span("x", 1, None, None, REVERSED))[:2] == (DEFAULT_BG, DEFAULT_FG)
    assert resolve_style(Span("x", 1, RED, Color(0, 0, 0), DIM)).fg == Color(127, 0, 0)
    assert resolve_style(Span("x", 1, modifier=BOLD | ITALIC | UNDERLINED))[2:] == (True, True, True)


def test_a_png_is_drawn_cell_by_cell(family, tmp_path):
    file = tmp_path / "p.png"
    drawn = rendering(
        Cell("█", RED), Cell("漢", None, BLUE), Cell("?"), Cell(" ", modifier=UNDERLINED), Cell("x")
    )
    drawer = PngDrawer(family)
    assert render_png(drawn, family, file) == (5 * drawer.wide, drawer.high)
    image = Image.open(file)
    middle = drawer.high // 2
    assert image.getpixel((drawer.wide // 2, middle)) == (255, 0, 0)
    assert image.getpixel((drawer.wide + 1, 0)) == (0, 0, 255)
    assert image.getpixel((3 * drawer.wide - 1, 0)) == (0, 0, 255), "a wide character has two cells"
    assert image.getpixel((3 * drawer.wide + 1, drawer.high - 2)) == (
        DEFAULT_FG.r,
        DEFAULT_FG.g,
        DEFAULT_FG.b,
    ), "underlined"
    last = image.crop((4 * drawer.wide, 0, 5 * drawer.wide, drawer.high))
    assert last.tobytes() == PngDrawer(family).draw(rendering(Cell("x"))).tobytes(), "nothing reaches into it"
    assert PngDrawer(family).draw(rendering(Cell("x", modifier=BOLD))).tobytes() != last.tobytes()


def test_without_a_font_it_says_how_to_get_one(tmp_path):
    with pytest.raises(InvalidSpec) as refused:
        fonts.find_font((str(tmp_path),))
    assert "fonts-dejavu-core" in refused.value.hint
    assert "--font" in refused.value.hint
    (tmp_path / "LiberationMono-Regular.ttf").touch()
    assert fonts.find_font((str(tmp_path),)).regular == str(tmp_path / "LiberationMono-Regular.ttf")


def test_an_svg_has_every_run_in_its_place_and_fetches_nothing():
    drawn = rendering(
        Cell("<", RED), Cell("&", RED), Cell("漢", None, BLUE), Cell("?"), Cell("z", modifier=BOLD)
    )
    text = render_svg(drawn)
    assert render_svg(drawn) == text
    root = ElementTree.fromstring(text)
    words = [
        (node.text, node.get("x"), node.get("textLength"), node.get("fill"), node.get("font-weight"))
        for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert words == [
        ("<&", "0", str(2 * WIDE), "#ff0000", None),
        ("漢", str(2 * WIDE), str(2 * WIDE), None, None),
        ("z", str(4 * WIDE), str(WIDE), None, "bold"),
    ]
    assert (root.get("width"), root.get("height")) == (str(5 * WIDE), str(HIGH))
    assert set(re.findall(r"https?://\S+?\"", text)) == {'http://www.w3.org/2000/svg"'}
    assert "url(" not in text


@pytest.mark.clause("AINB-22")
def test_one_frame_is_drawn_without_a_terminal(family, tmp_path):
    place = easel(tmp_path, env={"ROWS": json.dumps([["漢", "", "x"], ["\x1b[2J", "\u0301", "y"]])})
    png_file, svg_file = tmp_path / "one.png", tmp_path / "one.svg"
    done = plughost(str(place), "--png", str(png_file), "--svg", str(svg_file), "--size", "40x6", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["plugin"], told["screen"], told["columns"], told["rows"]) == ("easel", "main", 40, 6)
    assert told["frame_ms"] > 0
    assert Image.open(png_file).size == (told["png"]["width"], told["png"]["height"])
    text = svg_file.read_text()
    assert "40x6" in text
    assert "漢" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--svg", "x.svg", "--size", "0x5"], 2, "such as 80x24"),
        (["--svg", "x.svg", "--size", "10000x10000"], 2, "at most 500x200"),
        (["--svg", "x.svg", "--fps", "nan"], 2, "nan is not a finite number"),
        (["--svg", "x.svg", "--wait", "nan"], 2, "nan is not a finite number"),
        (["--svg", "x.svg", "--wait", "inf"], 2, "'--wait': inf is not in the range"),
        ([], 2, "--png FILE"),
        (["--json"], 2, "needs --png"),
        (["other", "--svg", "x.svg"], 2, "no screen 'other'; known: main"),
        (["--svg", "no/such/folder/x.svg"], 2, "cannot write the picture"),
        (["--png", "x.png", "--font", __file__], 2, "is not a usable font"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, words, code, said):
    done = run_here("screen", str(easel(tmp_path)), *words, cwd=ROOT)
    assert (done.returncode, said in done.stderr + done.stdout) == (code, True), done.stderr


def test_a_plugin_that_gives_no_frame_is_an_error_and_no_picture(tmp_path):
    place = easel(tmp_path, env={"ROWS": "no JSON"}, failure_limit=1)
    file = tmp_path / "x.svg"
    done = plughost(str(place), "--svg", str(file), "-c", str(place / "plughost.toml"))
    assert done.returncode == 3
    assert "JSONDecodeError" in done.stderr, "its last words"
    assert not file.exists()


def test_it_is_drawn_when_it_has_come_to_rest_or_when_it_is_told(tmp_path):
    place = easel(tmp_path, env={"MOVING": "1", "MOVING_UNTIL": "12"})
    file = tmp_path / "x.svg"
    assert plughost(str(place), "--svg", str(file)).returncode == 0
    assert "counting 12" in file.read_text()
    assert plughost(str(place), "--svg", str(file), "--wait", "0").returncode == 0
    assert re.search("counting 1\\b", file.read_text())


async def test_whoever_is_not_up_yet_is_waited_for_and_who_never_rests_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(stills, "SETTLE_TIMEOUT", 60.0)
    frames = tmp_path / "frames"
    place = easel(tmp_path, env={"MOVING": "1", "FRAMES": str(frames)})
    up = asyncio.Event()
    async with open_session([vouched(place)], []) as ((plugin,), *_):
        coming = [asyncio.create_task(up.wait())]
        drawing = asyncio.create_task(stills.capture(plugin, 40, 6, None, coming))
        await until(lambda: plugin.state == "Running")
        for _ in range(3):
            await plugin.plugin.call("plugin/render", {"viewport": {"width": 1, "height": 1}})
        assert len(frames.read_text()) == 3, "none but those asked for here"
        up.set()
        await until(lambda: len(frames.read_text()) > 20)
        assert not drawing.done(), "it moves"
        drawing.cancel()
        monkeypatch.setattr(stills, "SETTLE_TIMEOUT", 0.1)
        drawn = await stills.capture(plugin, 40, 6, None, [])
    assert drawn.rendering.width == 40


@pytest.mark.parametrize(("wait", "limit"), [(None, 20), (5.0, 25)])
async def test_who_never_gets_ready_is_given_up_and_ended_with_its_last_words(tmp_path, wait, limit):
    place = easel(tmp_path, env={"HANGS": "1"})
    clock = VirtualClock()
    async with Host(clock=clock) as host:
        plugin = LocalScreenPlugin(host, await host.add(vouched(place), start=False))
        drawing = asyncio.create_task(stills.capture(plugin, 40, 6, wait, []))
        await until(lambda: host.service("logs").recent("easel"))
        clock.advance(limit - 0.1)
        await asyncio.sleep(0)
        assert not drawing.done()
        clock.advance(0.1)
        with pytest.raises(Timeout, match=f"not ready within {limit} s") as late:
            await drawing
        await all_gone(f"{place}/easel")
    assert (late.value.plugin, late.value.stderr_tail) == ("easel", "waiting for the moon")


def test_plugins_of_a_root_go_by_their_names(tmp_path):
    easel(tmp_path, "painter", screens=("one", "two"))
    easel(tmp_path, "mute", screens=())
    file = tmp_path / "x.svg"
    assert plughost("--root", str(tmp_path), "painter", "two", "--svg", str(file)).returncode == 0
    assert "has no screens" in plughost("--root", str(tmp_path), "mute", "--svg", str(file)).stderr
    nobody = plughost("--root", str(tmp_path), "nobody", "--svg", str(file))
    assert (nobody.returncode, "known: mute, painter" in nobody.stderr) == (2, True)


LACKING = """
import sys
sys.modules["textual"] = sys.modules["PIL"] = None
from plughost.cli.commands import screen
try:
    if sys.argv[1] == "textual":
        screen._show(screen.ScreenOptions([], []), 30.0)
    else:
        from plughost.screens.picture import png_image
        png_image.PngDrawer(png_image.FontFamily("x.ttf"))
except screen.InvalidSpec as error:
    print(error.explain())
"""


@pytest.mark.parametrize("what", ["textual", "Pillow"])
def test_without_the_extra_it_says_what_to_install(what):
    done = subprocess.run(
        [sys.executable, "-c", LACKING, what], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert f"need {what}" in done.stdout, done.stderr
    assert "pip install 'plughost[tui]'" in done.stdout
