"""What a row is made of: parts of two kinds, one below the other, and how much of the row they are."""

from __future__ import annotations

from burndown_screen import words
from burndown_screen.table import ACCENT, QUIET, largest, put_header, put_row
from burndown_screen.usage import Row, Usage
from burndown_screen.view import View
from plughost_sdk.ainb import BOLD, Buffer

NOT_YET = "what it is made of is shown when all logs have been read"
OLDER = "made of calls that are older than those published one by one"

Line = tuple[str, Row | None, int]
"""A heading, or a row with the tokens of the longest bar; or nothing."""


def put_detail(buffer: Buffer, usage: Usage, view: View, row: Row, *, complete: bool) -> None:
    title = f" {row.name}  {row.note}" if row.note else f" {row.name}"
    buffer.put(0, 1, words.fit(title, buffer.width), fg=ACCENT, style=BOLD)
    parts = usage.parts(view.table, row)
    if not any(parts.values()):
        buffer.put(1, 3, words.fit(OLDER if complete else NOT_YET, buffer.width - 1), fg=QUIET)
        return
    top = 2
    if share := _share(usage, row, next(iter(parts.values())), complete):
        buffer.put(1, top, words.fit(share, buffer.width - 1), fg=QUIET)
        top += 2
    _put_lines(buffer, view, top, _lines(parts))


def _share(usage: Usage, row: Row, parts: list[Row], complete: bool) -> str:
    """How much of the row its parts are; nothing to say if they are all of it."""
    shown, whole = sum(part.bucket.tokens for part in parts), row.bucket.tokens
    if shown == whole:
        return ""
    of = f"of the newest {usage.folded:,} calls" if complete else "from before all logs were read"
    return f"{of} ({words.tokens(shown)} of {words.tokens(whole)} tokens)"


def _lines(parts: dict[str, list[Row]]) -> list[Line]:
    lines: list[Line] = []
    for table, rows in parts.items():
        most = largest(rows)
        lines += [("", None, 0)] if lines else []
        lines += [(table, None, 0), *(("", row, most) for row in rows)]
    return lines


def _put_lines(buffer: Buffer, view: View, top: int, lines: list[Line]) -> None:
    """As many as fit, from where somebody has paged to; and how many rows there are above and below."""
    room = buffer.height - top - (2 if view.search else 1)
    if len(lines) > room:
        room -= 1
        view.skipped = min(view.skipped, max(0, len(lines) - room))
        above, below = _rows(lines[: view.skipped]), _rows(lines[view.skipped + max(0, room) :])
        told = [f"{above} above, page up"] * bool(above) + [f"{below} more, page down"] * bool(below)
        buffer.put(1, top + room, f"… {' · '.join(told)}", fg=QUIET)
    else:
        view.skipped = 0
    view.page = max(1, room - 1)
    for y, (heading, row, most) in enumerate(lines[view.skipped : view.skipped + max(0, room)], top):
        if row is not None:
            put_row(buffer, y, row, most)
        elif heading:
            put_header(buffer, y)
            buffer.put(1, y, heading, fg=QUIET, style=BOLD)


def _rows(lines: list[Line]) -> int:
    return sum(row is not None for _, row, _ in lines)
