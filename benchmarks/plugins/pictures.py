"""Frames that are encoded once, so that drawing them again costs nothing.

`still` is one picture, `runs` a picture of coloured runs of which every row moves, `mixed` one in which every
cell looks different from its neighbours and from what it was.
"""

import json
from functools import cache

FRAMES = 16


def encoded(kind: str, width: int, height: int, turn: int) -> bytes:
    """The result of a render; after some turns they come again."""
    return _encoded(kind, width, height, turn % FRAMES)


@cache
def _encoded(kind: str, width: int, height: int, turn: int) -> bytes:
    cells = [[{"x": x, "y": y}, _cell(kind, x, y, turn)] for y in range(height) for x in range(width)]
    buffer = {"width": width, "height": height, "cells": cells}
    return json.dumps({"buffer": buffer, "redraw": True}, separators=(",", ":")).encode()


def _cell(kind: str, x: int, y: int, turn: int) -> dict[str, object]:
    if kind == "mixed":
        shade = {"r": x * 3 % 256, "g": (y * 10 + turn * 16) % 256, "b": (x + y + turn) * 7 % 256}
        ground = {"r": turn * 8, "g": x % 256, "b": y}
        return {
            "symbol": chr(33 + (x + y + turn) % 90),
            "fg": shade,
            "bg": ground,
            "modifier": (x + turn) % 2,
        }
    moved = x + (turn if kind == "runs" else 0)
    shade = {"r": 40 + moved // 10 % 8 * 25, "g": 120, "b": y * 10 % 256}
    return {"symbol": chr(97 + moved % 26), "fg": shade, "bg": {"r": 0, "g": 0, "b": 40}, "modifier": 0}
