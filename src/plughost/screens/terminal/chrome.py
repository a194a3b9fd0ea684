"""The lines around a plugin's screen: the tabs, and the status line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from plughost.contracts.ainb.messages import BOLD, REVERSED, Cell
from plughost.screens.frame_source import FrameSource
from plughost.screens.render import BLANK, Row, cells_of, line, row_of

MORE = 2
"""Columns of … and a space, for tabs that do not fit."""


class TabLabel(NamedTuple):
    """One screen of a plugin, and where its frames come from."""

    source: FrameSource
    screen: str

    @property
    def title(self) -> str:
        """The title, as plugin/screen."""
        return f"{self.source.name}/{self.screen}"


LEAVE = "Ctrl+Q leaves "


def status_line(tabs: Sequence[TabLabel], chosen: int, rate: float, width: int) -> Row:
    """The status line: state, frame time, frames per second, dropped frames, and the keys. A narrow one is
    cut before the key that leaves."""
    tab = tabs[chosen]
    source = tab.source
    status = (
        f" {tab.title}  {source.state}  {source.took * 1e3:.1f} ms  {rate:.0f}/s  {source.dropped} dropped"
    )
    keys = LEAVE if len(tabs) == 1 else f"Ctrl+PgUp/PgDn other screens, {LEAVE}"
    if _columns(status) + len(keys) >= width:
        keys = LEAVE if len(LEAVE) < width else LEAVE.split(maxsplit=1)[0]
    room = max(width - len(keys) - 1, 0)
    status = status[:room]
    while _columns(status) > room:  # of wide characters fewer fit
        status = status[:-1]
    return line(status + " " * (width - _columns(status) - len(keys)) + keys, width, REVERSED)


def _columns(text: str) -> int:
    return len([*cells_of(text)])


def tab_line(tabs: Sequence[TabLabel], chosen: int, width: int) -> Row:
    """The chosen tab and as many around it as fit; … where there are more."""
    cells = [BLANK] * width
    visible = tab_columns(tabs, chosen, width)
    for number, (start, end) in visible.items():
        title = [*cells_of(f" {tabs[number].title} ", REVERSED | BOLD if number == chosen else 0)]
        cells[start : start + len(title)] = title[: end - start]
    starts, ends = zip(*visible.values(), strict=True)
    if starts[0] == MORE:
        cells[0] = Cell("…")
    if len(tabs) - 1 not in visible and ends[-1] + MORE <= width:
        cells[ends[-1] + 1] = Cell("…")
    return row_of(cells[:width])


def tab_columns(tabs: Sequence[TabLabel], chosen: int, width: int) -> dict[int, tuple[int, int]]:
    """The columns (start, end) of the tabs that fit, by tab number: beginning with the first tab that leaves
    room for the chosen one."""
    for first in range(chosen + 1):
        visible = _tabs_from(first, tabs, width)
        if chosen in visible:
            return visible
    return {chosen: (0, width)}


def _tabs_from(first: int, tabs: Sequence[TabLabel], width: int) -> dict[int, tuple[int, int]]:
    """The tabs that fit as a whole, beginning with this one."""
    visible: dict[int, tuple[int, int]] = {}
    start = MORE if first else 0
    for number in range(first, len(tabs)):
        end = start + len([*cells_of(tabs[number].title)]) + 2
        if end + (MORE if number + 1 < len(tabs) else 0) > width:
            break
        visible[number] = (start, end)
        start = end + 1
    return visible
