"""Recorded bytes taken apart into frames, however they were cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from plughost.engine.tap import Direction
from plughost.wire.framing import ContentLength, Frame, Frames, Framing, Lines

LARGEST = 64 << 20
"""A frame past any contract's limit is still taken apart: it was recorded, and it may hold a secret."""


class _AnyHeaders(ContentLength):
    """A host refuses other headers than Content-Length; here they are passed over."""

    __slots__ = ()

    def _parse(self, line: bytes) -> int:
        name = line.partition(b":")[0].strip().lower()
        return super()._parse(line) if name == b"content-length" else self._length


_FRAMINGS: dict[str, Callable[[], Framing]] = {
    "Lines": lambda: Lines(LARGEST),
    "ContentLength": lambda: _AnyHeaders(LARGEST, header_limit=1 << 20),
}


def reader(framing: str) -> Framing | None:
    """A new framing of that name (an `Origin` tells it); None when it is some contract's own."""
    make = _FRAMINGS.get(framing)
    return None if make is None else make()


class FrameSplitter:
    """Both ways of one conversation. Of a framing that is not known here, every passage is a frame."""

    def __init__(self, framing: str) -> None:
        self._ways: dict[Direction, Framing | None] = {"out": reader(framing), "in": reader(framing)}

    def feed(self, way: Direction, data: bytes) -> Frames:
        """The frames that are whole now."""
        framing = self._ways[way]
        return [data] if framing is None else framing.feed(data)

    def end(self, way: Direction) -> Frames:
        framing = self._ways[way]
        return [] if framing is None else framing.end()


DEEPEST = 200
"""Levels of a value that is looked into: whoever walks through it calls itself for every one."""


class UnreadableTraffic:
    """In the place of a value: the frame is no JSON, or nested beyond all reason."""


def value(frame: Frame) -> Any:
    """What a frame says; `UnreadableTraffic` when that cannot be told."""
    try:
        said = msgspec.json.decode(frame)
    except (ValueError, RecursionError):
        return UnreadableTraffic
    return UnreadableTraffic if frame.count(b"[") + frame.count(b"{") > DEEPEST and _is_deep(said) else said


def _is_deep(said: Any) -> bool:
    level = [said] if isinstance(said, dict | list) else []
    for _ in range(DEEPEST):
        inner = [each for outer in level for each in (outer.values() if isinstance(outer, dict) else outer)]
        level = [each for each in inner if isinstance(each, dict | list)]
    return bool(level)


IDS = ("id", "request_id")


def id_of(message: Any) -> Any:
    """The id that a message carries, in whichever contract's spelling; None when it has none."""
    if isinstance(message, dict):
        for name in IDS:
            if isinstance(message.get(name), int | str):
                return message[name]
    return None


def method_of(message: Any) -> str | None:
    """What a request asks for; None for an answer."""
    if isinstance(message, dict):
        for name in ("method", "tool_name"):
            if isinstance(message.get(name), str):
                return str(message[name])
    return None
