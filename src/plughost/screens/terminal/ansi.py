"""Encodes rows as ANSI escape sequences and text for a terminal."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.color import ColorSystem

from plughost.contracts.ainb.messages import BOLD, DIM, ITALIC, REVERSED, UNDERLINED, Color
from plughost.screens.render import Row

CODES = {BOLD: ";1", DIM: ";2", ITALIC: ";3", UNDERLINED: ";4", REVERSED: ";7"}
RESET = "\x1b[0m"


def to_ansi(row: Row, colours: ColorSystem | None) -> str:
    """A row for a terminal with this colour system; None for no colours. Only differences to the style of the
    previous span are written."""
    parts: list[str] = []
    front: Color | None = None
    back: Color | None = None
    bits = -1
    for text, _, fg, bg, modifier in row:
        codes = ""
        if modifier != bits or fg is None or bg is None:  # only a reset removes a modifier or a colour
            codes = f";0{_modifiers(modifier)}"
            bits, front, back = modifier, None, None
        if fg != front:
            codes += _colour(fg, colours, True)
            front = fg
        if bg != back:
            codes += _colour(bg, colours, False)
            back = bg
        parts.append(f"\x1b[{codes[1:]}m{text}" if codes else text)
    return "".join(parts) + RESET


def _colour(colour: Color | None, colours: ColorSystem | None, foreground: bool) -> str:
    if colour is None or colours is None:
        return ""
    if colours is ColorSystem.TRUECOLOR:
        return f";{38 if foreground else 48};2;{colour.r};{colour.g};{colour.b}"
    return _nearest(colour, colours, foreground)


@lru_cache(maxsize=256)
def _modifiers(modifier: int) -> str:
    return "".join(code for bit, code in CODES.items() if modifier & bit)


@lru_cache(maxsize=4096)
def _nearest(colour: Color, colours: ColorSystem, foreground: bool) -> str:
    """The code of the nearest colour that the terminal has."""
    near = RichColor.from_rgb(colour.r, colour.g, colour.b).downgrade(colours)
    return "".join(f";{code}" for code in near.get_ansi_codes(foreground))
