"""Rows as the bytes that a terminal draws them by: text, and colours of our own making."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.color import ColorSystem

from plughost.contracts.ainb.messages import BOLD, DIM, ITALIC, REVERSED, UNDERLINED, Color
from plughost.terminal.painter import Row

CODES = {BOLD: ";1", DIM: ";2", ITALIC: ";3", UNDERLINED: ";4", REVERSED: ";7"}
RESET = "\x1b[0m"


def inked(row: Row, colours: ColorSystem | None) -> str:
    """A row for a terminal that knows so many colours; None is none at all."""
    parts: list[str] = []
    for text, _, fg, bg, modifier in row:
        codes = _modifiers(modifier) if modifier else ""
        if colours is ColorSystem.TRUECOLOR:
            if fg is not None:
                codes += f";38;2;{fg.r};{fg.g};{fg.b}"
            if bg is not None:
                codes += f";48;2;{bg.r};{bg.g};{bg.b}"
        elif colours is not None:
            codes += _nearest(fg, colours, True) + _nearest(bg, colours, False)
        parts.append(f"\x1b[0{codes}m{text}")
    return "".join(parts) + RESET


@lru_cache(maxsize=256)
def _modifiers(modifier: int) -> str:
    return "".join(code for bit, code in CODES.items() if modifier & bit)


@lru_cache(maxsize=4096)
def _nearest(colour: Color | None, colours: ColorSystem, foreground: bool) -> str:
    """The code of the most similar colour that the terminal has."""
    if colour is None:
        return ""
    near = RichColor.from_rgb(colour.r, colour.g, colour.b).downgrade(colours)
    return "".join(f";{code}" for code in near.get_ansi_codes(foreground))
