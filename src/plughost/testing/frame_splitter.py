"""Splits recorded bytes into frames, however the writes were cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from plughost.engine.io.tap import Direction
from plughost.wire.framing import ContentLength, Frame, Frames, Framing, Lines

LARGEST = 64 << 20
"""Maximum bytes of a frame, above every contract's limit: a recorded frame over the limit may hold a secret
too."""


class _AnyHeaders(ContentLength):
    """Content-Length framing that skips other headers, which a host would refuse."""

    __slots__ = ()

    def _parse(self, line: bytes) -> int:
        name = line.partition(b":")[0].strip().lower()
        return super()._parse(line) if name == b"content-length" else self._length


_FRAMINGS: dict[str, Callable[[], Framing]] = {
    "Lines": lambda: Lines(LARGEST),
    "ContentLength": lambda: _AnyHeaders(LARGEST, header_limit=1 << 20),
}


def reader(framing: str) -> Framing | None:
    """A new framing of that name, as in an `Origin`; None for a framing that a contract defines itself."""
    make = _FRAMINGS.get(framing)
    return None if make is None else make()


class FrameSplitter:
    """Splits both directions of one conversation. With an unknown framing, each passage counts as a frame."""

    def __init__(self, framing: str) -> None:
        self._ways: dict[Direction, Framing | None] = {"out": reader(framing), "in": reader(framing)}

    def feed(self, way: Direction, data: bytes) -> Frames:
        """The frames that are complete now."""
        framing = self._ways[way]
        return [data] if framing is None else framing.feed(data)

    def end(self, way: Direction) -> Frames:
        framing = self._ways[way]
        return [] if framing is None else framing.end()


DEEPEST = 200
"""Maximum nesting of a value: the functions that walk through values are recursive."""


class UnreadableTraffic:
    """A placeholder for the value of a frame that is not JSON, or is nested too deeply."""


def value(frame: Frame) -> Any:
    """Decodes a frame; `UnreadableTraffic` when that is not possible."""
    try:
        decoded = msgspec.json.decode(frame)
    except (ValueError, RecursionError):
        return UnreadableTraffic
    return (
        UnreadableTraffic
        if frame.count(b"[") + frame.count(b"{") > DEEPEST and _is_deep(decoded)
        else decoded
    )


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        inner = [each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer)]
        level = [each for each in inner if isinstance(each, dict | list)]
    return bool(level)


IDS = ("id", "request_id")


def id_of(message: Any) -> Any:
    """The id of a message, as any contract spells it; None when it has none."""
    if isinstance(message, dict):
        for name in IDS:
            if isinstance(message.get(name), int | str):
                return message[name]
    return None


def method_of(message: Any) -> str | None:
    """The method of a request; None for a response."""
    if isinstance(message, dict):
        for name in ("method", "tool_name"):
            if isinstance(message.get(name), str):
                return str(message[name])
    return None
