"""Rows in columns: names, numbers, and bars that compare the tokens."""

from __future__ import annotations

import re

from burndown_screen import words
from burndown_screen.usage import Row
from plughost_sdk.ainb import DIM, REVERSED, Buffer

ACCENT, QUIET, MONEY, ALARM = (120, 190, 255), (140, 140, 140), (150, 220, 130), (255, 140, 110)
COLUMNS = (("tokens", 8), ("input", 8), ("cached", 8), ("output", 8), ("calls", 7), ("cost", 14))
NARROWEST = 12
"""Of the column with the names."""
NAMED = 30
"""Where there is more room than that, bars compare the tokens."""


def largest(rows: list[Row]) -> int:
    """The tokens that the longest bar stands for."""
    return max((row.bucket.tokens for row in rows), default=0)


def put_header(buffer: Buffer, y: int) -> None:
    columns = _columns(buffer.width)
    header = "".join(f"{title:>{width}}" for title, width in columns)
    buffer.put(1 + _names(buffer, columns), y, header, fg=QUIET, style=DIM)


def put_row(buffer: Buffer, y: int, row: Row, most: int, *, selected: bool = False) -> None:
    """A row, with a bar as long as its tokens are to the `most` of any."""
    columns = _columns(buffer.width)
    names = _names(buffer, columns)
    room_for_name = NAMED - 2 if names > NAMED else names - 1
    line = (
        " "
        + words.pad(words.fit(row.name, room_for_name), names)
        + "".join(f"{_cell(row, title):>{width}}" for title, width in columns)
    )
    if selected:
        buffer.put(0, y, words.pad(line, buffer.width), style=REVERSED)
    else:
        _put_words(buffer, y, line)
    bar = (names - NAMED) * row.bucket.tokens // most if most and names > NAMED else 0
    buffer.put(NAMED, y, "▇" * bar, fg=ACCENT, style=REVERSED if selected else DIM)


def _put_words(buffer: Buffer, y: int, line: str) -> None:
    """Without the spaces between them: a frame is as large as what is painted."""
    for word in re.finditer(r"\S+", line):
        buffer.put(words.columns(line[: word.start()]), y, word[0])


def _columns(width: int) -> list[tuple[str, int]]:
    """As many as there is room for; tokens and cost go last."""
    columns = [*COLUMNS]
    for dropped in ("input", "cached", "output", "calls"):
        if sum(each for _, each in columns) + NARROWEST + 2 > width:
            columns = [column for column in columns if column[0] != dropped]
    return columns


def _names(buffer: Buffer, columns: list[tuple[str, int]]) -> int:
    """How wide the column with the names is."""
    return max(NARROWEST, buffer.width - 2 - sum(width for _, width in columns))


def _cell(row: Row, title: str) -> str:
    bucket = row.bucket
    if title == "cost":
        return words.cost(bucket)
    if title == "calls":
        return f"{bucket.call_count:,}"
    counts = {
        "tokens": bucket.tokens,
        "input": bucket.input_tokens,
        "cached": bucket.cache_creation_tokens + bucket.cache_read_tokens,
        "output": bucket.output_tokens + bucket.reasoning_tokens,
    }
    return words.tokens(counts[title])
