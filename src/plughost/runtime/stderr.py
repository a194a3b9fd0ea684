"""A plugin's stderr: always drained, never growing; its lines for the log, its last words for errors.

What must not be shown is hidden here, where texts are cut: afterwards a part of it could not be told.
"""

from __future__ import annotations

from plughost.base.hiding import Hidden
from plughost.base.text import cut_out, visible

LONGEST_LINE = 8192
"""In the log; the rest of a longer one is left out there."""
MOST_LINES = 200
"""Of one read: of a flood, the log gets a part."""


class StderrTail:
    """Keeps the last `limit` bytes of a stream, however long the stream is."""

    __slots__ = ("_begun", "_cut", "_held", "_hidden", "_limit", "_pieces", "_too_long")

    def __init__(self, limit: int = 8192, hidden: Hidden | None = None) -> None:
        self._limit = limit
        self._hidden = hidden or Hidden()
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
        kept = [self._line(line) for line in lines[-MOST_LINES:]]
        if len(kept) < len(lines):
            kept.insert(0, f"({len(lines) - len(kept)} lines left out)")
        if self._too_long:
            self._begun = b""
        elif len(self._begun) > LONGEST_LINE:
            kept.append(visible(self._hidden.piece(cut_out(self._begun))[:LONGEST_LINE]))
            self._begun, self._too_long = b"", True
        return kept

    def rest(self) -> str:
        """The last line, if its end never came."""
        return self._line(self._begun)

    def _line(self, line: bytes) -> str:
        return visible(self._hidden.text(_text(line).rstrip("\r"))[:LONGEST_LINE])

    def _joined(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]

    def text(self, lines: int = 20) -> str:
        """The last lines, readable; what is no text shows as escapes."""
        said = self._joined()
        text = self._hidden.piece(cut_out(said)) if self._cut else self._hidden.text(_text(said))
        return "\n".join(map(visible, text.splitlines()[-lines:]))


def _text(said: bytes) -> str:
    return said.decode(errors="backslashreplace")
