"""Colours of pictures, where there is no terminal with default colours of its own."""

from __future__ import annotations

from typing import NamedTuple

from plughost.contracts.ainb.messages import BOLD, DIM, ITALIC, REVERSED, UNDERLINED, Color
from plughost.screens.render import Span

DEFAULT_FG = Color(204, 204, 204)
DEFAULT_BG = Color(12, 12, 12)


class ResolvedStyle(NamedTuple):
    """How a span is drawn: the modifiers that change colours are applied already."""

    fg: Color
    bg: Color
    bold: bool
    italic: bool
    underlined: bool


def resolve_style(span: Span) -> ResolvedStyle:
    """The colours and font style of a span, with default colours, reversal and dimming applied."""
    fg, bg = span.fg or DEFAULT_FG, span.bg or DEFAULT_BG
    if span.modifier & REVERSED:
        fg, bg = bg, fg
    if span.modifier & DIM:
        fg = Color((fg.r + bg.r) // 2, (fg.g + bg.g) // 2, (fg.b + bg.b) // 2)
    bold, italic, underlined = (bool(span.modifier & bit) for bit in (BOLD, ITALIC, UNDERLINED))
    return ResolvedStyle(fg, bg, bold, italic, underlined)
