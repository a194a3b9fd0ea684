"""Renders a plugin's buffer of cells to rows of spans. Pure: the terminal and the pictures draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from plughost.contracts.ainb.messages import (
    BOLD,
    DIM,
    ITALIC,
    REVERSED,
    REVERSED_TOO,
    UNDERLINED,
    Cell,
    Color,
    WireBuffer,
)
from plughost.screens.cell_width import columns_of, display_text

KNOWN = BOLD | DIM | ITALIC | UNDERLINED | REVERSED
BLANK = Cell(" ")


class Span(NamedTuple):
    """Adjacent characters with the same style; a colour of None is the terminal's default."""

    text: str
    columns: int
    fg: Color | None = None
    bg: Color | None = None
    modifier: int = 0
    """Bits of KNOWN."""


Row = tuple[Span, ...]
"""Spans that together have as many columns as the rendering is wide."""


class Rendering(NamedTuple):
    """A rendered frame."""

    width: int
    height: int
    cells: list[list[Cell]]
    rows: list[Row]
    changed: Sequence[int]
    """The rows that differ from the rendering before."""


def render(buffer: WireBuffer, width: int, height: int, before: Rendering | None = None) -> Rendering:
    """Render the part of a buffer that is in the viewport; unchanged rows are taken from the rendering
    `before`."""
    cells = _cell_grid(buffer, width, height)
    if before is None or (before.width, before.height) != (width, height):
        return Rendering(width, height, cells, [row_of(each) for each in cells], range(height))
    changed = [y for y, (old, new) in enumerate(zip(before.cells, cells, strict=True)) if old != new]
    rows = before.rows.copy()
    for y in changed:
        rows[y] = row_of(cells[y])
    return Rendering(width, height, cells, rows, changed)


def _cell_grid(buffer: WireBuffer, width: int, height: int) -> list[list[Cell]]:
    cells = [[BLANK] * width for _ in range(height)]
    wide, high = min(buffer.width, width), min(buffer.height, height)
    for place, cell in buffer.cells:
        x, y = place.x, place.y
        if x < wide and y < high:
            cells[y][x] = cell
    return cells


def row_of(cells: Sequence[Cell]) -> Row:
    """A row of exactly as many columns as there are cells, whatever they contain."""
    width = len(cells)
    symbols = [cell.symbol for cell in cells]
    text = "".join(symbols)
    plain = len(text) == width and "" not in symbols and text.isascii() and text.isprintable()
    if not plain:
        symbols = _display_symbols(symbols)
    spans: list[Span] = []
    start = 0
    for cut in _span_ends(cells):
        # A wide character may extend into the next span.
        end = cut if plain or cut == width or symbols[cut] else cut + 1
        if end > start:
            first = cells[start]
            part = text[start:end] if plain else "".join(symbols[start:end])
            spans.append(Span(part, end - start, first.fg, first.bg, _known_modifiers(first.modifier)))
            start = end
    return tuple(spans)


def _span_ends(cells: Sequence[Cell]) -> list[int]:
    """Where each span of cells with the same style ends."""
    ends: list[int] = []
    first = cells[0] if cells else BLANK
    fg, bg, modifier = first.fg, first.bg, first.modifier
    for x, cell in enumerate(cells):
        if cell.fg != fg or cell.bg != bg or cell.modifier != modifier:
            ends.append(x)
            fg, bg, modifier = cell.fg, cell.bg, cell.modifier
    return [*ends, len(cells)]


def _display_symbols(symbols: Sequence[str]) -> list[str]:
    """The displayed text of each symbol; empty where a wide character covers the cell."""
    shown: list[str] = []
    for x, symbol in enumerate(symbols):
        if len(shown) > x:
            continue
        text, columns = display_text(symbol)
        if columns == 1:
            shown.append(text)
        elif x + 1 < len(symbols):
            shown += [text, ""]
        else:
            shown.append(" ")  # half of a wide character cannot be drawn
    return shown


def _known_modifiers(modifier: int) -> int:
    return (modifier | REVERSED if modifier & REVERSED_TOO else modifier) & KNOWN


def cells_of(text: str, modifier: int = 0, fg: Color | None = None) -> Iterator[Cell]:
    """Text as cells, with an empty one after each character that is two columns wide."""
    for symbol, columns in columns_of(text):
        yield Cell(symbol, fg, None, modifier)
        if columns > 1:
            yield Cell("", fg, None, modifier)


def line(text: str, width: int, modifier: int = 0, fg: Color | None = None) -> Row:
    """Text as one row, cut or padded to `width`."""
    cells = list(islice(cells_of(text, modifier, fg), width))
    return row_of(cells + [Cell(" ", fg, None, modifier)] * (width - len(cells)))
