"""Rows on a terminal: only those that have changed are drawn anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from plughost.terminal.ink import inked
from plughost.terminal.painter import Row, line


class Inked(Strip):
    """A row that knows its own bytes: styles of the library's making cost ten times as much."""

    __slots__ = ("_colours", "_row")

    def __init__(self, row: Row, colours: ColorSystem | None) -> None:
        super().__init__([Segment("".join(run.text for run in row))], sum(run.columns for run in row))
        self._row = row
        self._colours = colours

    def render(self, console: Console) -> str:
        return inked(self._row, self._colours)


class Rows(Widget):
    """Shows rows as they are given, in the terminal's own colours where they have none."""

    ALLOW_SELECT = False

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._strips: list[Inked] = []

    @property
    def _colours(self) -> ColorSystem | None:
        known = self.app.console.color_system
        return None if known is None or self.app.no_color else COLOR_SYSTEMS[known]

    def show(self, rows: Sequence[Row], changed: Sequence[int] | None = None) -> None:
        """Show these; without `changed`, all of them anew."""
        if changed is None or len(self._strips) != len(rows):
            self._strips = [Inked(row, self._colours) for row in rows]
            self.refresh()
            return
        for y in changed:
            self._strips[y] = Inked(rows[y], self._colours)
        if changed:
            width = self.size.width
            self.refresh(*(Region(0, start, width, end - start) for start, end in spans(changed)))

    def render_lines(self, crop: Region) -> list[Strip]:
        return [self._strip(y, crop) for y in range(crop.y, crop.bottom)]

    def _strip(self, y: int, crop: Region) -> Strip:
        """While the size is changing, there may be too much or too little."""
        if y >= len(self._strips):
            return Inked(line("", crop.width), None)
        strip = self._strips[y]
        if strip.cell_length == crop.width:
            return strip
        return strip.crop(crop.x, crop.right).extend_cell_length(crop.width)


def spans(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as ranges, each with its end."""
    start = end = -1
    for number in numbers:
        if number != end:
            if end > start:
                yield start, end
            start = number
        end = number + 1
    if end > start:
        yield start, end
