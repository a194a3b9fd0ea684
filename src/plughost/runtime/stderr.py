"""A plugin's last words: always drained, never growing."""

from __future__ import annotations


class StderrTail:
    """Keeps the last `limit` bytes of a stream, however long the stream is."""

    __slots__ = ("_held", "_limit", "_pieces")

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> None:
        self._pieces.append(data[-self._limit :])
        self._held += len(self._pieces[-1])
        if self._held > 4 * self._limit or len(self._pieces) > 64:
            self._pieces = [self._joined()]
            self._held = len(self._pieces[0])

    def _joined(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]

    def text(self, lines: int = 20) -> str:
        """The last lines, readable; what is no text shows as escapes."""
        text = self._joined().decode(errors="backslashreplace")
        return "\n".join("".join(map(_visible, line)) for line in text.splitlines()[-lines:])


def _visible(character: str) -> str:
    """A terminal must not obey a plugin's control characters when an error is shown."""
    return (
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape").decode()
    )
