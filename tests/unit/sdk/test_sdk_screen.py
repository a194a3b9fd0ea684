"""What an SDK plugin paints is what the host shows, whatever script it is written in."""

from __future__ import annotations

from unicodedata import category

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.contracts.ainb.messages import WireBuffer
from plughost.screens import cell_width
from plughost.screens.render import render
from plughost_sdk import screen
from plughost_sdk.ainb import Buffer, cells

WIDE = "漢字プロジェクト名"
CAFE = "cafe\u0301"


def shown(buffer: Buffer) -> list[str]:
    wire = msgspec.convert(buffer.to_wire(buffer.width, buffer.height), WireBuffer)
    painting = render(wire, buffer.width, buffer.height)
    return ["".join(run.text for run in row).rstrip() for row in painting.rows]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("tea", 3),
        (WIDE, 18),
        (CAFE, 4),
        ("가\u0301x", 3),
        ("👨\u200d👩", 4),
        ("\u0301x", 2),
        ("", 0),
        ("ﾃｨ", 2),
        ("👍🏻x", 3),
        ("🏻x", 2),
        ("☰䷀㉈", 3),
    ],
)
def test_a_text_takes_as_many_cells_as_columns(text, columns):
    found = cells(text)
    assert len(found) == columns
    assert "".join(found) == text


@pytest.mark.clause("AINB-40")
def test_wide_characters_and_marks_are_shown_whole():
    buffer = Buffer(24, 3)
    buffer.put(0, 0, f"{WIDE} {CAFE}|")
    buffer.put(21, 1, WIDE)  # the second has no room
    buffer.put(-1, 2, f"{WIDE}|")
    assert shown(buffer) == [f"{WIDE} café|", f"{' ' * 21}漢", f" {WIDE[1:]}|"]


def test_nothing_behind_a_character_is_lost_whatever_terminals_think_of_its_width():
    buffer = Buffer(12, 2)
    buffer.put(0, 0, "☰Menu")
    buffer.put(0, 1, "👍🏻x")
    assert shown(buffer) == ["\ufffdMenu", "👍x"]


def test_the_sdk_and_the_host_agree_on_how_many_cells_a_character_takes():
    assert screen.DISPUTED == cell_width.DISPUTED
    every = [chr(number) for number in range(0x30000) if category(chr(number)) not in ("Cn", "Cs")]
    differ = [each for each in every if len(cells(each)) != cell_width.display_text(each).columns]
    assert "".join(differ) == "\u3000\u302e\u302f\u3164\U00016ff0\U00016ff1", "blank or lost, and a space"


@given(st.text(max_size=20))
def test_any_text_can_be_painted(text):
    buffer = Buffer(10, 1)
    buffer.put(0, 0, text)
    assert len(shown(buffer)) == 1
