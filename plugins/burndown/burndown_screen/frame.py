"""One frame: a table of days, projects or models, what a row is made of, or why there is nothing to show."""

from __future__ import annotations

import re

from burndown_screen import words
from burndown_screen.inbox import Inbox
from burndown_screen.usage import Row, Usage
from burndown_screen.view import TABLES, View
from plughost_sdk.ainb import BOLD, DIM, REVERSED, Buffer

ACCENT, QUIET, MONEY, ALARM = (120, 190, 255), (140, 140, 140), (150, 220, 130), (255, 140, 110)
COLUMNS = (("tokens", 8), ("input", 8), ("cached", 8), ("output", 8), ("calls", 7), ("cost", 14))
NARROWEST = 12
"""Of the column with the names."""
NAMED = 30
"""Where there is more room than that, bars compare the tokens."""
KEYS = "tab table  enter parts  / search  s order  r refresh"


def paint(inbox: Inbox, view: View, width: int, height: int) -> Buffer:
    buffer = Buffer(width, height)
    if inbox.mismatch is not None:
        _mismatch(buffer, inbox.mismatch.expected, inbox.mismatch.got)
    elif inbox.usage is None:
        _say(buffer, "No usage yet", _waiting(inbox))
    else:
        _tables(buffer, inbox, inbox.usage, view)
    return buffer


def _waiting(inbox: Inbox) -> list[str]:
    if inbox.trouble:
        return [inbox.trouble]
    if inbox.progress is not None:
        return [_progress(inbox)]
    return ["session-reader publishes it; is it running beside burndown?", "r asks again"]


def _progress(inbox: Inbox) -> str:
    told = inbox.progress
    if told is None:
        return ""
    return f"reading {told.scanned} of {told.total} files  {words.fit(told.current_project, 30)}"


def _mismatch(buffer: Buffer, expected: int, got: int) -> None:
    lines = [
        f"published: version {got}",
        f"understood here: version {expected}",
        "Update burndown or session-reader, whichever is older.",
    ]
    _say(buffer, "Schema mismatch", lines, ALARM)


def _say(buffer: Buffer, title: str, lines: list[str], color: tuple[int, int, int] = ACCENT) -> None:
    top = max(0, (buffer.height - len(lines) - 2) // 2)
    fitting = [words.fit(line, buffer.width) for line in [title, "", *lines]]
    for y, line in enumerate(fitting, top):
        x = max(0, (buffer.width - words.columns(line)) // 2)
        buffer.put(x, y, line, fg=color if y == top else None, style=BOLD if y == top else 0)


def _tables(buffer: Buffer, inbox: Inbox, usage: Usage, view: View) -> None:
    view.page = max(1, buffer.height - 4)
    row = view.chosen(usage)
    _head(buffer, usage, view)
    if view.is_open and row is not None:
        _parts(buffer, usage, view, row)
    else:
        _rows(buffer, view.rows(usage), 2, view.page, view.selected)
    _foot(buffer, inbox, usage, view)


def _head(buffer: Buffer, usage: Usage, view: View) -> None:
    x = 1
    for name in TABLES:
        shown = name == view.table
        buffer.put(x, 0, f" {name} ", fg=ACCENT if shown else QUIET, style=BOLD | REVERSED if shown else 0)
        x += len(name) + 3
    total = f"{words.tokens(usage.total.tokens)} tokens  {words.cost(usage.total)}"
    place = max(x, buffer.width - len(total) - 1)
    buffer.put(place, 0, total, fg=MONEY, style=BOLD)


def _rows(buffer: Buffer, rows: list[Row], top: int, room: int, selected: int | None) -> None:
    columns = _columns(buffer.width)
    names = max(NARROWEST, buffer.width - 2 - sum(width for _, width in columns))
    header = "".join(f"{title:>{width}}" for title, width in columns)
    buffer.put(1 + names, top - 1, header, fg=QUIET, style=DIM)
    first = max(0, (selected or 0) - room + 1)
    largest = max((row.bucket.tokens for row in rows), default=0)
    for y, (number, row) in enumerate([*enumerate(rows)][first : first + room], top):
        room_for_name = NAMED - 2 if names > NAMED else names - 1
        line = (
            " "
            + words.pad(words.fit(row.name, room_for_name), names)
            + "".join(f"{_cell(row, title):>{width}}" for title, width in columns)
        )
        if number == selected:
            buffer.put(0, y, words.pad(line, buffer.width), style=REVERSED)
        else:
            _put_words(buffer, y, line)
        bar = (names - NAMED) * row.bucket.tokens // largest if largest and names > NAMED else 0
        buffer.put(NAMED, y, "▇" * bar, fg=ACCENT, style=REVERSED if number == selected else DIM)


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


def _parts(buffer: Buffer, usage: Usage, view: View, row: Row) -> None:
    title = f" {row.name}  {row.note}" if row.note else f" {row.name}"
    buffer.put(0, 1, words.fit(title, buffer.width), fg=ACCENT, style=BOLD)
    parts = usage.parts(view.table, row.name)
    if not any(parts.values()):
        buffer.put(1, 3, "what it is made of is shown when all logs have been read", fg=QUIET)
        return
    half = max(1, (buffer.height - 3) // 2 - 2)
    y = 3
    for table, rows in parts.items():
        _rows(buffer, rows, y, half, None)
        buffer.put(1, y - 1, table, fg=QUIET, style=BOLD)
        y += min(half, len(rows)) + 2


def _foot(buffer: Buffer, inbox: Inbox, usage: Usage, view: View) -> None:
    y = buffer.height - 1
    if view.is_typing or view.search:
        sought = f" search: {words.plain(view.search)}{'▏' if view.is_typing else ''}"
        buffer.put(0, y - 1, words.fit(sought, buffer.width), fg=ACCENT)
    told = [words.many(len(view.rows(usage)), view.table), words.many(usage.total.call_count, "calls")]
    if view.order != "usual":
        told.append(f"by {view.order}")
    if usage.total.unpriced_calls:
        told.append(f"{usage.total.unpriced_calls:,} without a price")
    if inbox.trouble or inbox.progress is not None:
        told.append(inbox.trouble or _progress(inbox))
    status = words.fit(f" {' · '.join(told)}", buffer.width)
    buffer.put(0, y, status, fg=QUIET)
    if buffer.width - words.columns(status) > len(KEYS) + 2:
        buffer.put(buffer.width - len(KEYS) - 1, y, KEYS, fg=QUIET, style=DIM)
