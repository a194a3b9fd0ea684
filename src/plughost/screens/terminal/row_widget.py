"""A widget of rows: only changed rows are drawn again."""

from __future__ import annotations

from collections.abc import Sequence

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from plughost.screens.render import Row, line
from plughost.screens.terminal.ansi import to_ansi


class AnsiStrip(Strip):
    """A Textual strip that encodes its row itself: Textual's styles cost ten times as much."""

    __slots__ = ("_colours", "_row")

    def __init__(self, row: Row, colours: ColorSystem | None) -> None:
        super().__init__([Segment("".join(span.text for span in row))], columns(row))
        self._row = row
        self._colours = colours

    def render(self, console: Console) -> str:
        return to_ansi(self._row, self._colours)


class Rows(Widget):
    """Shows rows as they are given, in the terminal's default colours where they have none."""

    ALLOW_SELECT = False

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._is_painted = False
        """Whether Textual has painted since it was last asked to. It drops what it is asked for too early."""

    def show(self, rows: Sequence[Row], changed: Sequence[int] | None = None) -> None:
        """Show these rows; without `changed`, all are drawn again."""
        fitting = len(rows) == self.size.height and columns(rows[0]) == self.size.width if rows else False
        known = len(rows) == len(self._rows)
        self._rows = rows
        if changed is None or not known or not fitting or not self._is_painted:
            self._is_painted = False
            self.refresh()
        elif changed:
            self._draw(changed)

    def _draw(self, changed: Sequence[int]) -> None:
        """Write the rows straight to the terminal: through Textual's layout it would cost as much as the rest
        of a frame."""
        driver = self.app._driver
        if driver is None or self.app.is_headless:
            self._is_painted = False
            self.refresh()
            return
        left, top = self.region.offset
        colours = self._colours
        updates = (f"\x1b[{top + y + 1};{left + 1}H{to_ansi(self._rows[y], colours)}" for y in changed)
        driver.write("".join(updates))
        driver.flush()

    @property
    def _colours(self) -> ColorSystem | None:
        known = self.app.console.color_system
        return None if known is None or self.app.no_color else COLOR_SYSTEMS[known]

    def render_lines(self, crop: Region) -> list[Strip]:
        self._is_painted = True
        return [self._strip(y, crop) for y in range(crop.y, crop.bottom)]

    def _strip(self, y: int, crop: Region) -> Strip:
        """While the size is changing, there may be too many or too few columns."""
        if y >= len(self._rows):
            return AnsiStrip(line("", crop.width), None)
        strip = AnsiStrip(self._rows[y], self._colours)
        if strip.cell_length == crop.width:
            return strip
        return strip.crop(crop.x, crop.right).extend_cell_length(crop.width)


def columns(row: Row) -> int:
    """The width of a row."""
    return sum(span.columns for span in row)
