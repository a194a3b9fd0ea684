"""A plugin's stderr: always drained, never growing; its lines for the log, its last words for errors.

What must not be shown is hidden here, where texts are cut: afterwards a part of it could not be told.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import escape_controls, excerpt
from plughost.engine.rate_limit import TokenBucket

LONGEST_LINE = 8192
"""In the log; the rest of a longer one is left out there."""
MOST_LINES = 200
"""Of one read: of a flood, the log gets a part."""
LOOKED_AT = 128 << 10
"""Bytes a second that are searched for secrets and told to the log; more is read and dropped."""
READ = 8192
"""Bytes of one read, for who reads: others have their turn in between."""


class StderrTail:
    """Keeps the last `limit` bytes of a stream, however long the stream is."""

    __slots__ = (
        "_begun", "_budget", "_cut", "_held", "_hidden", "_left_out", "_limit", "_pieces", "_too_long",
    )  # fmt: skip

    def __init__(
        self, limit: int = 8192, hidden: Redactor | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._budget = TokenBucket(LOOKED_AT, now)
        self._left_out = 0
        """Lines, since the last one that was told."""
        self._hidden = hidden or Redactor()
        self._cut = False
        """Whether something came before what is kept."""
        self._too_long = False
        """Whether it is inside a line whose beginning was told."""
        self._pieces: list[bytes] = []
        self._held = 0
        self._begun = b""

    def feed(self, data: bytes) -> list[str]:
        """Take what came; the lines that are whole now."""
        self._cut = self._cut or self._held + len(data) > self._limit
        self._pieces.append(data[-self._limit :])
        self._held += len(self._pieces[-1])
        if self._held > 4 * self._limit or len(self._pieces) > 64:
            self._pieces = [self._joined()]
            self._held = len(self._pieces[0])
        *lines, self._begun = (self._begun + data).split(b"\n")
        if lines and self._too_long:
            del lines[0]
            self._too_long = False
        self._left_out += max(len(lines) - MOST_LINES, 0)
        kept: list[str] = []
        for line in lines[-MOST_LINES:]:
            if self._may_be_told(line, kept):
                kept.append(self._line(line))
        if self._too_long:
            self._begun = b""
        elif len(self._begun) > LONGEST_LINE:
            if self._may_be_told(self._begun, kept):
                kept.append(
                    escape_controls(self._hidden.redact_fragment(excerpt(self._begun))[:LONGEST_LINE])
                )
            self._begun, self._too_long = b"", True
        return kept

    def _may_be_told(self, line: bytes, kept: list[str]) -> bool:
        """Whether there is time for another line. Before it goes how many there was none for."""
        if not self._budget.take(len(line) + 1):
            self._left_out += 1
            return False
        if self._left_out:
            kept.append(f"({self._left_out} lines left out)")
            self._left_out = 0
        return True

    def rest(self) -> str:
        """The last line, if its end never came."""
        return self._line(self._begun)

    def _line(self, line: bytes) -> str:
        return escape_controls(self._hidden.redact(_text(line).rstrip("\r"))[:LONGEST_LINE])

    def _joined(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]

    def text(self, lines: int = 20) -> str:
        """The last lines, readable; what is no text shows as escapes."""
        said = self._joined()
        text = self._hidden.redact_fragment(excerpt(said)) if self._cut else self._hidden.redact(_text(said))
        return "\n".join(map(escape_controls, text.splitlines()[-lines:]))


def _text(said: bytes) -> str:
    return said.decode(errors="backslashreplace")
