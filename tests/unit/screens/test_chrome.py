"""The status line of screens: it says how to leave at every width."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from plughost.screens.terminal.chrome import TabLabel, status_line

SOURCE = SimpleNamespace(name="a-plugin-世界", state="Running", took=0.012, dropped=0)


def text(width: int, count: int) -> str:
    tabs = [TabLabel(SOURCE, f"screen-{number}") for number in range(count)]
    return "".join(segment.text for segment in status_line(tabs, 0, 30.0, width))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("width", [*range(6, 140)])
def test_the_status_line_says_how_to_leave_at_every_width(width, count):
    assert "Ctrl+Q" in text(width, count)


def test_a_wide_status_line_also_says_how_to_see_other_screens():
    assert text(140, 3).rstrip().endswith("Ctrl+PgUp/PgDn other screens, Ctrl+Q leaves")
    assert text(60, 3).rstrip().endswith("Ctrl+Q leaves")
