"""Draws a rendering as SVG: searchable text in any monospace font, and the same output every time."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from plughost.contracts.ainb.messages import Color
from plughost.screens.cell_width import columns_of
from plughost.screens.colors import INK, PAPER, resolve_style
from plughost.screens.render import Rendering, Span

WIDE, HIGH, BASELINE = 9, 18, 14
"""The size of a cell and its baseline, in units of the picture."""
FITTED = 'lengthAdjust="spacingAndGlyphs" xml:space="preserve"'


def render_svg(painting: Rendering) -> str:
    """The rendering as an SVG document."""
    width, height = painting.width * WIDE, painting.height * HIGH
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="15" fill="{_hex(INK)}">',
        f'<rect width="{width}" height="{height}" fill="{_hex(PAPER)}"/>',
    ]
    for y, row in enumerate(painting.rows):
        x = 0
        for run in row:
            lines += _run(run, x, y)
            x += run.columns
    return "\n".join([*lines, "</svg>"]) + "\n"


def _run(run: Span, x: int, y: int) -> list[str]:
    """A span's background, then its text."""
    how = resolve_style(run)
    drawn: list[str] = []
    if how.bg != PAPER:
        place = f'x="{x * WIDE}" y="{y * HIGH}" width="{run.columns * WIDE}" height="{HIGH}"'
        drawn.append(f'<rect {place} fill="{_hex(how.bg)}"/>')
    style = "".join(
        attribute
        for wanted, attribute in (
            (how.fg != INK, f' fill="{_hex(how.fg)}"'),
            (how.bold, ' font-weight="bold"'),
            (how.italic, ' font-style="italic"'),
            (how.underlined, ' text-decoration="underline"'),
        )
        if wanted
    )
    for text, columns in _pieces(run):
        if how.underlined or not text.isspace():
            place = f'x="{x * WIDE}" y="{y * HIGH + BASELINE}" textLength="{columns * WIDE}"'
            drawn.append(f"<text {place} {FITTED}{style}>{escape(text)}</text>")
        x += columns
    return drawn


def _pieces(run: Span) -> Iterable[tuple[str, int]]:
    """The parts of a span, each stretched to its cells: character by character where fonts differ in
    width."""
    return [(run.text, run.columns)] if run.text.isascii() else columns_of(run.text)


def _hex(colour: Color) -> str:
    return f"#{colour.r:02x}{colour.g:02x}{colour.b:02x}"
