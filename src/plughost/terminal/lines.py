"""The lines around a screen: which screens there are, and how the one that is seen is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from plughost.contracts.ainb.messages import BOLD, REVERSED
from plughost.terminal.feed import Feed
from plughost.terminal.painter import BLANK, Row, cells_of, line, row_of


class Tab(NamedTuple):
    feed: Feed
    screen: str

    @property
    def title(self) -> str:
        return f"{self.feed.name}/{self.screen}"


def status_line(tabs: Sequence[Tab], chosen: int, rate: float, width: int) -> Row:
    """State, frame time, frames a second, dropped frames; and how to get out."""
    tab = tabs[chosen]
    feed = tab.feed
    told = f" {tab.title}  {feed.state}  {feed.took * 1e3:.1f} ms  {rate:.0f}/s  {feed.dropped} dropped"
    keys = "Ctrl+Q leaves " if len(tabs) == 1 else "Ctrl+PgUp/PgDn other screens, Ctrl+Q leaves "
    gap = width - len([*cells_of(told)]) - len(keys)
    return line(told + " " * gap + keys if gap > 0 else told, width, REVERSED)


def tab_line(tabs: Sequence[Tab], chosen: int, width: int) -> Row:
    cells = [BLANK] * width
    for number, (start, end) in enumerate(places(tabs)):
        modifier = REVERSED | BOLD if number == chosen else 0
        cells[start:end] = cells_of(f" {tabs[number].title} ", modifier)
    return row_of(cells[:width])


def places(tabs: Sequence[Tab]) -> list[tuple[int, int]]:
    """Where each tab's title is, in columns."""
    found: list[tuple[int, int]] = []
    for tab in tabs:
        start = found[-1][1] + 1 if found else 0
        found.append((start, start + len([*cells_of(tab.title)]) + 2))
    return found
