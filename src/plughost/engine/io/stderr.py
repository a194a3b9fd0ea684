"""A plugin's stderr: always read, bounded in memory. Its lines go to the log, its last lines into errors.

Secrets are redacted here, before a text is cut: part of a secret could not be recognised afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import escape_controls, excerpt
from plughost.engine.rate_limit import TokenBucket

MAX_LINE = 8192
"""Characters of a line in the log; the rest of a longer line is left out."""
MAX_LINES = 200
"""Lines of one read that go to the log; in a flood, the log gets only a part."""
BYTES_PER_SECOND = 128 << 10
"""Rate limit in bytes per second of lines that are redacted and logged; more is read and dropped."""
READ_SIZE = 8192
"""Bytes of one read. It is small, so that other plugins have their turn in between."""


class StderrTail:
    """Splits stderr into redacted lines for the log, and keeps its last `limit` bytes for errors."""

    __slots__ = (
        "_budget", "_in_long_line", "_is_cut", "_limit", "_partial_line", "_pieces", "_redactor", "_size",
        "_skipped_lines",
    )  # fmt: skip

    def __init__(
        self, limit: int = 8192, redactor: Redactor | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._budget = TokenBucket(BYTES_PER_SECOND, now)
        self._skipped_lines = 0
        """Lines that were dropped since the last one that was logged."""
        self._redactor = redactor or Redactor()
        self._is_cut = False
        """Whether bytes before those in `_pieces` were dropped."""
        self._in_long_line = False
        """Whether the stream is inside a long line whose beginning was logged already."""
        self._pieces: list[bytes] = []
        self._size = 0
        self._partial_line = b""

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; the complete lines for the log, redacted and with control characters escaped."""
        self._is_cut = self._is_cut or self._size + len(data) > self._limit
        self._pieces.append(data[-self._limit :])
        self._size += len(self._pieces[-1])
        if self._size > 4 * self._limit or len(self._pieces) > 64:
            self._pieces = [self._joined()]
            self._size = len(self._pieces[0])
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if lines and self._in_long_line:
            del lines[0]
            self._in_long_line = False
        self._skipped_lines += max(len(lines) - MAX_LINES, 0)
        shown: list[str] = []
        for line in lines[-MAX_LINES:]:
            if self._within_budget(line, shown):
                shown.append(self._line(line))
        if self._in_long_line:
            self._partial_line = b""
        elif len(self._partial_line) > MAX_LINE:
            if self._within_budget(self._partial_line, shown):
                shown.append(
                    escape_controls(self._redactor.redact_fragment(excerpt(self._partial_line))[:MAX_LINE])
                )
            self._partial_line, self._in_long_line = b"", True
        return shown

    def _within_budget(self, line: bytes, shown: list[str]) -> bool:
        """Whether the rate limit allows another line. Adds a line with the number of skipped lines before
        it."""
        if not self._budget.take(len(line) + 1):
            self._skipped_lines += 1
            return False
        if self._skipped_lines:
            shown.append(f"({self._skipped_lines} lines left out)")
            self._skipped_lines = 0
        return True

    def rest(self) -> str:
        """The last line, if the stream ended without a newline."""
        return self._line(self._partial_line)

    def _line(self, line: bytes) -> str:
        return escape_controls(self._redactor.redact(_decode_text(line).rstrip("\r"))[:MAX_LINE])

    def _joined(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]

    def text(self, lines: int = 20) -> str:
        """The last lines of the stream, redacted; bytes that are not UTF-8 are shown as escapes."""
        tail = self._joined()
        text = (
            self._redactor.redact_fragment(excerpt(tail))
            if self._is_cut
            else self._redactor.redact(_decode_text(tail))
        )
        return "\n".join(map(escape_controls, text.splitlines()[-lines:]))


def _decode_text(tail: bytes) -> str:
    return tail.decode(errors="backslashreplace")
