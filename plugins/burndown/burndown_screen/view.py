"""Where on the screen somebody is, and what keys do about it."""

from __future__ import annotations

from burndown_screen.usage import Bucket, Row, Usage
from plughost_sdk.ainb import Key

TABLES = ("days", "projects", "models")
ORDERS = ("usual", "cost", "tokens")
LONGEST_SEARCH = 60


class View:
    def __init__(self) -> None:
        self.table = TABLES[0]
        self.order = ORDERS[0]
        self.selected = 0
        self._row: tuple[str, str] | None = None
        """Which row that is, by name and note: others may come before it while somebody looks at it."""
        self.search = ""
        self.is_typing = False
        self.is_open = False
        """Shows what the selected row is made of."""
        self.page = 10
        """Rows that fit; whoever paints knows."""
        self.skipped = 0
        """Lines that somebody has paged over in what a row is made of."""

    def rows(self, usage: Usage) -> list[Row]:
        """Of the table that is shown, those that are searched for, in the order that is wanted."""
        wanted = self.search.casefold()
        rows = [
            row
            for row in usage.tables[self.table]
            if wanted in row.name.casefold() or wanted in row.note.casefold()
        ]
        if self.order == "cost":
            rows.sort(key=lambda row: -(row.bucket.cost_usd or 0.0))
        elif self.order == "tokens":
            rows.sort(key=lambda row: -row.bucket.tokens)
        return rows

    def chosen(self, usage: Usage) -> Row | None:
        """The selected row, wherever it is by now. One that is open and gone is still looked at."""
        rows = self.rows(usage)
        known = [(row.name, row.note) for row in rows]
        if self._row in known:
            self.selected = known.index(self._row)
        elif self._row is not None and self.is_open:
            name, note = self._row
            return Row(name, Bucket(), note)
        self.selected = max(0, min(self.selected, len(rows) - 1))
        self._row = known[self.selected] if rows else None
        return rows[self.selected] if rows else None

    def press(self, key: Key, usage: Usage | None) -> str | None:
        """What else is wanted: `refresh`, `read again`; or nothing."""
        if key.kind == "release" or key.mods & ~1:
            return None
        if usage is not None:
            self.chosen(usage)  # steps are from where it is by now
        if self.is_typing:
            self._type(key)
        elif key.code == "char":
            return self._command(key.ch)
        else:
            self._move(key.code)
        return None

    def _type(self, key: Key) -> None:
        if key.code == "char" and key.ch.isprintable():
            self.search = (self.search + key.ch)[:LONGEST_SEARCH]
        elif key.code == "backspace":
            self.search = self.search[:-1]
        elif key.code == "esc":
            self.search, self.is_typing = "", False
        elif key.code in ("enter", "up", "down"):
            self.is_typing = False
        self._select(0)

    def _command(self, ch: str) -> str | None:
        if ch == "/":
            self.is_typing, self.is_open = True, False
        elif ch in "123":
            self._show(int(ch) - 1)
        elif ch == "s":
            self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        elif ch in "jkgG":
            self._move({"j": "down", "k": "up", "g": "home", "G": "end"}[ch])
        return {"r": "refresh", "R": "read again"}.get(ch)

    def _move(self, code: str) -> None:
        steps = {"up": -1, "down": 1, "page_up": -self.page, "page_down": self.page}
        if code in ("tab", "right"):
            self._show(TABLES.index(self.table) + 1)
        elif code in ("back_tab", "left"):
            self._show(TABLES.index(self.table) - 1)
        elif code.startswith("page") and self.is_open:
            self.skipped = max(0, self.skipped + steps[code])
        elif code in steps:
            self._select(max(0, self.selected + steps[code]))
        elif code == "home":
            self._select(0)
        elif code == "end":
            self._select(10**9)  # `chosen` knows where that is
        elif code == "enter":
            self.is_open, self.skipped = not self.is_open, 0
        elif code == "esc":
            self.is_open, self.search = False, self.search if self.is_open else ""

    def _show(self, number: int) -> None:
        self.table = TABLES[number % len(TABLES)]
        self.is_open = False
        self._select(0)

    def _select(self, number: int) -> None:
        self.selected, self._row, self.skipped = number, None, 0
