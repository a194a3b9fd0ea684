"""A plugin's stderr: always drained, never growing; its lines for the log, its last words for errors."""

from __future__ import annotations

from plughost.base.text import visible

LONGEST_LINE = 8192
"""In the log; the rest of a longer one is left out there."""
MOST_LINES = 200
"""Of one read: of a flood, the log gets a part."""


class StderrTail:
    """Keeps the last `limit` bytes of a stream, however long the stream is."""

    __slots__ = ("_begun", "_held", "_limit", "_pieces")

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0
        self._begun = b""

    def feed(self, data: bytes) -> list[str]:
        """Take what came; the lines that are whole now."""
        self._pieces.append(data[-self._limit :])
        self._held += len(self._pieces[-1])
        if self._held > 4 * self._limit or len(self._pieces) > 64:
            self._pieces = [self._joined()]
            self._held = len(self._pieces[0])
        *lines, self._begun = (self._begun + data).split(b"\n")
        if len(self._begun) > LONGEST_LINE:
            lines.append(self._begun)
            self._begun = b""
        kept = [_readable(line[:LONGEST_LINE]) for line in lines[-MOST_LINES:]]
        return kept if len(kept) == len(lines) else [f"({len(lines) - len(kept)} lines left out)", *kept]

    def rest(self) -> str:
        """The last line, if its end never came."""
        return _readable(self._begun)

    def _joined(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]

    def text(self, lines: int = 20) -> str:
        """The last lines, readable; what is no text shows as escapes."""
        text = self._joined().decode(errors="backslashreplace")
        return "\n".join(map(visible, text.splitlines()[-lines:]))


def _readable(line: bytes) -> str:
    return visible(line.decode(errors="backslashreplace").rstrip("\r"))
