"""What an SDK plugin paints is what the host shows, whatever script it is written in."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.contracts.ainb.messages import WireBuffer
from plughost.terminal.painter import paint
from plughost_sdk.ainb import Buffer, cells

WIDE = "漢字プロジェクト名"
CAFE = "cafe\u0301"


def shown(buffer: Buffer) -> list[str]:
    wire = msgspec.convert(buffer.to_wire(buffer.width, buffer.height), WireBuffer)
    painting = paint(wire, buffer.width, buffer.height)
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


@given(st.text(max_size=20))
def test_any_text_can_be_painted(text):
    buffer = Buffer(10, 1)
    buffer.put(0, 0, text)
    assert len(shown(buffer)) == 1
