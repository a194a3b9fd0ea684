"""What has come over the bus: the newest sums at once, the newest calls when all of them are there."""

from __future__ import annotations

from time import monotonic

import msgspec

from burndown_screen.usage import Cells, Usage, events, fold, read
from plughost_sdk.ainb import Chunk, Mismatch

PATIENCE = 3.0
"""Seconds without any news after which nobody is taken to be reading."""


class Progress(msgspec.Struct):
    scanned: int = 0
    total: int = 0
    current_project: str = ""


class Inbox:
    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.mismatch: Mismatch | None = None
        self.trouble = ""
        self.complete = False
        self.progress: Progress | None = None
        self.has_reader = False
        """Somebody has told how far they are."""
        self._news = monotonic()
        """When we began, or were told last."""
        self._begun: Cells | None = None
        self._cells: Cells = {}

    @property
    def expects(self) -> bool:
        """There is nothing to show yet, and somebody seems to be about to change that."""
        nothing = self.usage is None and self.mismatch is None and not self.trouble
        return nothing and monotonic() - self._news < PATIENCE

    def wait_for_news(self) -> None:
        """Somebody was asked just now."""
        self._news = monotonic()

    def take(self, came: Chunk | Mismatch) -> None:
        """A batch without calls has newer sums; the calls that were there before still stand."""
        self.mismatch = came if isinstance(came, Mismatch) else None
        if isinstance(came, Mismatch):
            return
        try:
            data = events.decode(came.raw).data
        except (ValueError, RecursionError) as error:
            self.trouble, self._begun = f"what was published is no usage data: {error}", None
            return
        if came.index == 0:
            self.trouble, self._begun = "", {}
            self.usage = read(data)
            self.usage.cells = self._cells
        if self._begun is None or self.usage is None:
            return  # of a batch that could not be read
        fold(self._begun, data.calls)
        if came.is_final:
            self.complete = not came.partial
            if self.complete:
                self.progress = None  # not every publisher tells that it has scanned all
            if self._begun or self.complete:
                self._cells = self.usage.cells = self._begun
            self._begun = None

    def told(self, payload: bytes) -> None:
        """How far the reader is."""
        try:
            progress = msgspec.msgpack.decode(payload, type=Progress)
        except (ValueError, RecursionError):
            return
        self.has_reader, self._news = True, monotonic()
        self.progress = progress if 0 <= progress.scanned < progress.total else None
