"""Whatever cells hold, what reaches the terminal is text of the right width and colours of our own."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import ColorSystem

from plughost.contracts.ainb.messages import (
    BOLD,
    DIM,
    ITALIC,
    REVERSED,
    REVERSED_TOO,
    UNDERLINED,
    Cell,
    Color,
    Coord,
    WireBuffer,
)
from plughost.screens.cell_width import LONGEST, columns_of, display_text
from plughost.screens.render import Span, line, render, row_of
from plughost.screens.terminal.ansi import to_ansi

OURS = re.compile(r"\x1b\[[0-9;]+m")
NASTY = (
    "\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\n", "\t", "\x00", "\x7f", "\x85", "\u200b", "\u200d", "\u202e",
    "\u2028", "\ufeff", "\ufe0f", "\u0301", "e" + "\u0301" * 50, "\ud800", "漢", "👨‍👩‍👧", "🇩🇪", "❤️", "ab", "", "\U0010ffff",
    "\u1160", "\u0903", "A\x1b", "\U000e0001", "\ue0b0", "\u3000", "ｱ", "☰", "㉈", "䷀",
)  # fmt: skip

WIDE = ("漢", "👨‍👩‍👧", "🇩🇪")
symbols = st.one_of(
    st.sampled_from(NASTY), st.sampled_from(WIDE), st.text(max_size=3), st.characters(), st.just("x")
)
colours = st.one_of(st.none(), st.builds(Color, *[st.integers(0, 255)] * 3))
cells = st.builds(Cell, symbols, colours, colours, st.integers(0, 65535))
places = st.builds(Coord, st.integers(0, 12), st.integers(0, 6))
sides = st.one_of(st.integers(0, 12), st.just(10_000))
buffers = st.builds(WireBuffer, sides, sides, st.lists(st.tuples(places, cells), max_size=60))


def harmless(text: str) -> bool:
    """Nothing in it that a terminal obeys, or that has a width of its own mind."""
    return all(each.isprintable() or unicodedata.category(each) == "Co" for each in text)


@pytest.mark.clause("AINB-40")
@settings(deadline=None)
@given(buffers, st.integers(0, 12), st.integers(0, 6), st.sampled_from([*ColorSystem, None]))
def test_every_row_is_as_wide_as_the_viewport_and_holds_no_control_bytes_but_our_own(
    buffer, width, height, system
):
    painting = render(buffer, width, height)
    assert len(painting.rows) == height
    for row in painting.rows:
        assert sum(run.columns for run in row) == width
        written = to_ansi(row, system)
        text = OURS.sub("", written)
        assert harmless(text)
        assert cell_len(text) == width
        assert not row or written.endswith("\x1b[0m")
        assert all(cell_len(run.text) == run.columns for run in row)


@settings(deadline=None)
@given(st.lists(cells, max_size=6))
def test_a_row_is_as_wide_as_there_are_cells(cells):
    row = row_of(cells)
    assert [cell_len(run.text) for run in row] == [run.columns for run in row]
    assert sum(run.columns for run in row) == len(cells)


@settings(deadline=None)
@given(buffers, buffers, st.integers(1, 12), st.integers(1, 6))
def test_a_painting_does_not_depend_on_the_one_before_but_for_what_has_changed(first, second, width, height):
    before = render(first, width, height)
    after = render(second, width, height, before)
    assert after.rows == render(second, width, height).rows
    assert {y for y in range(height) if before.rows[y] != after.rows[y]} <= set(after.changed)
    assert render(second, width, height, after).changed == []


@settings(deadline=None)
@given(st.text(max_size=40))
@example("\u0301" * 100_000)
@example("x" + "\u0301" * 100_000)
def test_a_symbol_is_one_or_two_columns_and_short(symbol):
    text, columns = display_text(symbol)
    assert columns == cell_len(text)
    assert columns in (1, 2)
    assert len(text) <= LONGEST
    assert harmless(text)
    assert "".join(each.text for each in columns_of(text)) == text


def test_words_are_a_row_in_any_script():
    text = "漢字プロジェクト名 cafe\u0301 x"
    for width in range(1, 40):
        (run,) = line(text, width, BOLD)
        assert cell_len(run.text) == run.columns == width
    assert run.text.rstrip() == "漢字プロジェクト名 café x"
    assert [run.text for run in line(text, 3)] == ["漢 "], "of a wide character there is no half"


def test_what_is_shown_instead_of_a_character_takes_its_place_in_words_too():
    assert line("☰Menu ㉈|", 8) == (Span("\ufffdMenu \ufffd|", 8),)


@settings(deadline=None)
@given(st.text(max_size=40), st.integers(1, 20))
def test_any_words_are_a_row_of_its_width(text, width):
    row = line(text, width)
    assert sum(run.columns for run in row) == sum(cell_len(run.text) for run in row) == width


@pytest.mark.parametrize(
    ("symbol", "text", "columns"),
    [
        ("e\u0301", "é", 1),
        ("漢", "漢", 2),
        ("👨‍👩‍👧", "👨", 2),
        ("🇩🇪", "DE", 2),
        ("❤️", "❤", 1),
        ("", " ", 1),
        ("\u00a0", " ", 1),
        ("\x1b", "\ufffd", 1),
        ("\u200b", "\ufffd", 1),
        ("q\u0323\u0307\u0301\u0302\u0303", "q\u0323\u0307\u0301", 1),
        ("\ue0b0", "\ue0b0", 1),
        ("👍🏻", "👍", 2),
        ("🏻", "\ufffd", 1),
        *((each, "\ufffd", 1) for each in "☰☷⚊⚏㉈㉏䷀䷿𝌀𝍖𝍠𝍶"),
    ],
)
def test_what_is_shown_of_a_symbol(symbol, text, columns):
    assert display_text(symbol) == (text, columns)


@pytest.mark.clause("AINB-40")
def test_cells_outside_are_left_out_and_of_two_for_one_place_the_last_counts():
    cells = [
        (Coord(0, 0), Cell("a")),
        (Coord(0, 0), Cell("b")),
        (Coord(3, 0), Cell("!")),
        (Coord(0, 2), Cell("!")),
        (Coord(65535, 65535), Cell("!")),
    ]
    painting = render(WireBuffer(3, 1, cells), 5, 2)
    assert ["".join(run.text for run in row) for row in painting.rows] == ["b    ", "     "]


@pytest.mark.clause("AINB-40")
@pytest.mark.parametrize(
    ("bits", "codes"),
    [
        (0, "0"),
        (BOLD, "0;1"),
        (DIM, "0;2"),
        (ITALIC, "0;3"),
        (UNDERLINED, "0;4"),
        (REVERSED, "0;7"),
        (REVERSED_TOO, "0;7"),
        (BOLD | REVERSED, "0;1;7"),
        (32 | 128 | 0x8000, "0"),
    ],
)
def test_modifiers_become_what_they_mean(bits, codes):
    assert to_ansi(row_of([Cell("x", modifier=bits)]), None) == f"\x1b[{codes}mx\x1b[0m"


def test_colours_are_those_that_the_terminal_has():
    row = (Span("x", 1, Color(255, 0, 0), Color(0, 0, 255)),)
    assert to_ansi(row, ColorSystem.TRUECOLOR) == "\x1b[0;38;2;255;0;0;48;2;0;0;255mx\x1b[0m"
    assert to_ansi(row, ColorSystem.EIGHT_BIT) == "\x1b[0;38;5;196;48;5;21mx\x1b[0m"
    assert to_ansi(row, ColorSystem.STANDARD) == "\x1b[0;31;44mx\x1b[0m"
    assert to_ansi(row, None) == "\x1b[0mx\x1b[0m"


few = st.sampled_from([None, Color(255, 0, 0), Color(0, 0, 255)])
alike = st.tuples(few, few, st.sampled_from([0, BOLD, BOLD | REVERSED]))


@given(st.lists(alike, min_size=1, max_size=8))
def test_what_is_left_out_of_a_look_is_what_the_terminal_still_has(looks):
    """Played as a terminal does it: a 0 takes everything away, the rest adds."""
    row = tuple(Span("x", 1, *look) for look in looks)
    seen, now = [], {}
    for codes, text in re.findall(r"\x1b\[([0-9;]*)m|(x)", to_ansi(row, ColorSystem.TRUECOLOR)):
        if text:
            bits = BOLD * ("1" in now) | REVERSED * ("7" in now)
            seen.append((now.get("38"), now.get("48"), bits))
            continue
        now = dict(now)
        words = iter(codes.split(";"))
        for word in words:
            if word in ("38", "48"):
                assert next(words) == "2"
                now[word] = Color(*(int(next(words)) for _ in "rgb"))
            elif word == "0":
                now = {}
            else:
                assert word in ("1", "7")
                now[word] = True
    assert seen == looks
    assert now == {}, "and nothing is left for what comes after"


def test_a_wide_character_covers_the_next_cell_and_is_never_cut_in_half():
    red, blue = Color(255, 0, 0), Color(0, 0, 255)
    row = row_of([Cell("漢", red), Cell("x", blue), Cell("y", blue), Cell("字", red)])
    assert row == (Span("漢", 2, red), Span("y", 1, blue), Span(" ", 1, red))


def test_cells_that_look_alike_are_one_run():
    red = Color(255, 0, 0)
    assert row_of([Cell("a", red), Cell("b", Color(255, 0, 0)), Cell("c")]) == (
        Span("ab", 2, red),
        Span("c", 1),
    )


def test_a_huge_buffer_costs_no_more_than_what_is_seen_of_it():
    painting = render(WireBuffer(65535, 65535, [(Coord(1, 0), Cell("x"))]), 3, 1)
    assert painting.rows == [line(" x ", 3)]
