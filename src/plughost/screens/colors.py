"""Colours of pictures, where there is no terminal that has its own."""

from __future__ import annotations

from typing import NamedTuple

from plughost.contracts.ainb.messages import BOLD, DIM, ITALIC, REVERSED, UNDERLINED, Color
from plughost.screens.render import Span

INK = Color(204, 204, 204)
PAPER = Color(12, 12, 12)


class ResolvedStyle(NamedTuple):
    """How a run is drawn: everything that a modifier means for colours is in them already."""

    fg: Color
    bg: Color
    bold: bool
    italic: bool
    underlined: bool


def resolve_style(run: Span) -> ResolvedStyle:
    fg, bg = run.fg or INK, run.bg or PAPER
    if run.modifier & REVERSED:
        fg, bg = bg, fg
    if run.modifier & DIM:
        fg = Color((fg.r + bg.r) // 2, (fg.g + bg.g) // 2, (fg.b + bg.b) // 2)
    bold, italic, underlined = (bool(run.modifier & bit) for bit in (BOLD, ITALIC, UNDERLINED))
    return ResolvedStyle(fg, bg, bold, italic, underlined)
