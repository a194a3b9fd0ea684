"""What an ainb plugin paints, and the keys it is sent."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Color = tuple[int, int, int]

BOLD, DIM, ITALIC, UNDERLINED = 1, 2, 4, 8
REVERSED = 16 | 64
"""Hosts differ in which of the two they take: both are written."""
SHIFT, CTRL, ALT, SUPER = 1, 2, 4, 8
JOINERS = "\N{ZERO WIDTH JOINER}\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""Beside marks: what makes one emoji of two, and the colours of skin."""
DISPUTED = (
    (0x2630, 0x2637),
    (0x268A, 0x268F),
    (0x3248, 0x324F),
    (0x4DC0, 0x4DFF),
    (0x1D300, 0x1D356),
    (0x1D360, 0x1D376),
)
"""Terminals, and versions of Python, differ in how wide these are: a host shows one column instead."""


def cells(text: str) -> list[str]:
    """Text as a screen's cells, for whoever counts columns: each character with the marks on it, and an empty
    cell behind one that is two columns wide."""
    if text.isascii():
        return list(text)
    from unicodedata import category, east_asian_width

    found: list[str] = []
    for character in text:
        joins = category(character) in ("Mn", "Me") or character in JOINERS
        if found and joins:
            found[-1 if found[-1] else -2] += character
        elif not joins and east_asian_width(character) in "WF" and not _is_disputed(character):
            found += [character, ""]
        else:
            found.append(character)
    return found


def _is_disputed(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in DISPUTED)


class Buffer:
    """A screen's worth of cells; what is painted outside is left out."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.redraw = False
        """Set it when the next frame is worth asking for soon, although this one may look like the last."""
        self._cells: dict[tuple[int, int], dict[str, Any]] = {}

    def put(
        self, x: int, y: int, text: str, *, fg: Color | None = None, bg: Color | None = None, style: int = 0
    ) -> None:
        """Write `text` from a cell on, a character a cell or, when it is a wide one, in two."""
        if not 0 <= y < self.height:
            return
        for column, symbol in enumerate(cells(text), x):
            if 0 <= column < self.width:
                cell: dict[str, Any] = {"symbol": symbol, "modifier": style}
                if fg is not None:
                    cell["fg"] = _color(fg)
                if bg is not None:
                    cell["bg"] = _color(bg)
                self._cells[y, column] = cell

    def to_wire(self, width: int, height: int) -> dict[str, Any]:
        """As large as the screen it is for, whatever its own size."""
        painted = [
            [{"x": x, "y": y}, cell]
            for (y, x), cell in sorted(self._cells.items(), key=lambda item: item[0])
            if x < width and y < height
        ]
        return {"width": width, "height": height, "cells": painted}


def _color(color: Color) -> dict[str, int]:
    r, g, b = color
    if not all(0 <= part <= 255 for part in color):
        raise ValueError(f"a colour is three numbers from 0 to 255, not {color}")
    return {"r": r, "g": g, "b": b}


class Key:
    """A key: `code` is its name (char, enter, esc, page_up, f …), `ch` the character of a char."""

    def __init__(self, wire: dict[str, Any]) -> None:
        code = wire["code"]
        self.code: str = code["type"]
        self.ch: str = code.get("ch", "")
        self.n: int = code.get("n", 0)
        self.mods: int = wire.get("mods", 0)
        self.kind: str = wire.get("kind", "press")

    def __repr__(self) -> str:
        return f"Key({self.ch or self.code}{self.n or ''}, mods={self.mods}, {self.kind})"
