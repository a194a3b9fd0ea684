"""Recorded traffic: kept, redacted, saved, and played back."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

HIDDEN = "***"


class Passage(msgspec.Struct, frozen=True):
    """Bytes that went one way: `out` to the plugin, `in` from it."""

    way: str
    data: str
    """As latin-1, so that any byte has a character."""


class Traffic:
    def __init__(self, passages: list[Passage] | None = None) -> None:
        self.passages = passages or []

    def add(self, way: str, data: bytes) -> None:
        self.passages.append(Passage(way, data.decode("latin-1")))

    def bytes(self, way: str) -> bytes:
        """Everything that went one way."""
        return "".join(each.data for each in self.passages if each.way == way).encode("latin-1")

    def redacted(self, names: Collection[str]) -> Traffic:
        """The same without the values of these members, wherever they are. Frames that are lines only."""
        return Traffic([Passage(each.way, _redacted(each.data, names)) for each in self.passages])

    def save(self, path: Path) -> None:
        path.write_bytes(b"".join(msgspec.json.encode(passage) + b"\n" for passage in self.passages))

    @classmethod
    def load(cls, path: Path) -> Traffic:
        return cls([msgspec.json.decode(line, type=Passage) for line in path.read_bytes().splitlines()])


def _redacted(text: str, names: Collection[str]) -> str:
    """Each JSON document in `text` anew, with a fitting Content-Length before it if it had one."""
    header, blank, body = text.partition("\r\n\r\n")
    if blank and header.lower().startswith("content-length"):
        new = _hidden_in(body, names)
        return f"Content-Length: {len(new)}\r\n\r\n{new}"
    return "".join(_hidden_in(line, names) for line in text.splitlines(keepends=True))


def _hidden_in(text: str, names: Collection[str]) -> str:
    end = text[len(text.rstrip("\r\n")) :]
    try:
        value = msgspec.json.decode(text.encode("latin-1"))
    except (ValueError, RecursionError):
        return text
    return msgspec.json.encode(_hidden(value, names)).decode("latin-1") + end


def _hidden(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: HIDDEN if key in names else _hidden(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, names) for inner in value]
    return value
