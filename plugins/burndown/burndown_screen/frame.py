"""One frame: a table of days, projects or models, what a row is made of, or why there is nothing to show."""

from __future__ import annotations

from burndown_screen import words
from burndown_screen.detail import put_detail
from burndown_screen.inbox import Inbox
from burndown_screen.table import ACCENT, ALARM, MONEY, QUIET, largest, put_header, put_row
from burndown_screen.usage import Row, Usage
from burndown_screen.view import TABLES, View
from plughost_sdk.ainb import BOLD, DIM, REVERSED, Buffer

KEYS = "tab table  enter parts  / search  s order  r refresh"


def paint(inbox: Inbox, view: View, width: int, height: int) -> Buffer:
    buffer = Buffer(width, height)
    if inbox.mismatch is not None:
        _mismatch(buffer, inbox.mismatch.expected, inbox.mismatch.got)
    elif inbox.usage is None:
        _say(buffer, "No usage yet", _waiting(inbox))
        buffer.redraw = inbox.expects
    else:
        _tables(buffer, inbox, inbox.usage, view)
    return buffer


def _waiting(inbox: Inbox) -> list[str]:
    if inbox.trouble:
        return [inbox.trouble]
    if inbox.progress is not None:
        return [_progress(inbox)]
    if inbox.has_reader:
        return ["session-reader looks for logs"]
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
        put_detail(buffer, usage, view, row, complete=inbox.complete)
    else:
        _rows(buffer, view.rows(usage), view)
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


def _rows(buffer: Buffer, rows: list[Row], view: View) -> None:
    put_header(buffer, 1)
    most = largest(rows)
    first = max(0, view.selected - view.page + 1)
    for y, number in enumerate(range(first, min(first + view.page, len(rows))), 2):
        put_row(buffer, y, rows[number], most, selected=number == view.selected)


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
