"""Draws a rendering as SVG: searchable text in any monospace font, and the same output every time."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from plughost.contracts.ainb.messages import Color
from plughost.screens.cell_width import columns_of
from plughost.screens.colors import DEFAULT_BG, DEFAULT_FG, resolve_style
from plughost.screens.render import Rendering, Span

WIDE, HIGH, BASELINE = 9, 18, 14
"""The size of a cell and its baseline, in units of the picture."""
FITTED = 'lengthAdjust="spacingAndGlyphs" xml:space="preserve"'


def render_svg(rendering: Rendering) -> str:
    """The rendering as an SVG document."""
    width, height = rendering.width * WIDE, rendering.height * HIGH
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="15" fill="{_hex(DEFAULT_FG)}">',
        f'<rect width="{width}" height="{height}" fill="{_hex(DEFAULT_BG)}"/>',
    ]
    for y, row in enumerate(rendering.rows):
        x = 0
        for span in row:
            lines += _draw_span(span, x, y)
            x += span.columns
    return "\n".join([*lines, "</svg>"]) + "\n"


def _draw_span(span: Span, x: int, y: int) -> list[str]:
    """A span's background, then its text."""
    resolved = resolve_style(span)
    elements: list[str] = []
    if resolved.bg != DEFAULT_BG:
        place = f'x="{x * WIDE}" y="{y * HIGH}" width="{span.columns * WIDE}" height="{HIGH}"'
        elements.append(f'<rect {place} fill="{_hex(resolved.bg)}"/>')
    style = "".join(
        attribute
        for wanted, attribute in (
            (resolved.fg != DEFAULT_FG, f' fill="{_hex(resolved.fg)}"'),
            (resolved.bold, ' font-weight="bold"'),
            (resolved.italic, ' font-style="italic"'),
            (resolved.underlined, ' text-decoration="underline"'),
        )
        if wanted
    )
    for text, columns in _pieces(span):
        if resolved.underlined or not text.isspace():
            place = f'x="{x * WIDE}" y="{y * HIGH + BASELINE}" textLength="{columns * WIDE}"'
            elements.append(f"<text {place} {FITTED}{style}>{escape(text)}</text>")
        x += columns
    return elements


def _pieces(span: Span) -> Iterable[tuple[str, int]]:
    """The parts of a span, each stretched to its cells: character by character where fonts differ in
    width."""
    return [(span.text, span.columns)] if span.text.isascii() else columns_of(span.text)


def _hex(colour: Color) -> str:
    return f"#{colour.r:02x}{colour.g:02x}{colour.b:02x}"
