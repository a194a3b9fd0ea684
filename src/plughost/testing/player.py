"""Replays one side of recorded traffic, without any I/O."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from plughost._util.redaction.secret_set import HIDDEN
from plughost._util.text import escape_controls
from plughost.engine.io.tap import Direction
from plughost.errors import InvalidSpec
from plughost.testing.frame_splitter import (
    IDS,
    FrameSplitter,
    UnreadableTraffic,
    id_of,
    method_of,
    reader,
    value,
)
from plughost.testing.traffic import Traffic
from plughost.wire.framing import Frame, FrameError

SHOWN = 200


class Different(Exception):
    """Raised when the other side says something else than was recorded."""


class Raw(bytes):
    """Bytes to send unchanged: not a frame, or only a part of one."""


class Player:
    """Sends the messages of the side `ours`, each after the other side has sent what was recorded before it.

    Frames are compared as JSON, so it does not matter how they were cut or spaced. A redacted value matches
    any value. The other side may use other request ids than recorded: responses carry the new ones.
    """

    def __init__(self, traffic: Traffic, ours: Direction) -> None:
        framing = reader(traffic.origin.framing)
        if framing is None:
            raise InvalidSpec(f"the framing {traffic.origin.framing!r} is unknown, so it cannot be replayed")
        self._framing = framing
        self._ours = ours
        self._script = deque(_script(traffic, ours))
        self._received: deque[Frame | FrameError] = deque()
        self._count = 0
        self._ids: dict[Any, Any] = {}
        """The other side's request ids now, by their recorded ids."""

    @property
    def expected(self) -> str | None:
        """What the other side must send next; None when it has sent everything."""
        return next((_shown(item) for way, item in self._script if way != self._ours), None)

    def hear(self, data: bytes) -> bytes:
        """Takes bytes of the other side and returns the bytes to send now. Raises `Different` on a
        mismatch."""
        self._received += self._framing.feed(data)
        to_send = b""
        while self._script:
            way, item = self._script[0]
            if way == self._ours:
                to_send += self._say(item)
            elif self._received:
                self._compare(item, self._received.popleft())
            else:
                break
            self._script.popleft()
        if self._received and not self._script:
            raise Different(f"after the end of the recording, it sent {_shown(self._received[0])}")
        return to_send

    def _say(self, item: Frame | FrameError) -> bytes:
        assert not isinstance(item, FrameError)
        if isinstance(item, Raw):
            return item
        message = value(item)
        number = id_of(message)
        if method_of(message) is None and self._ids.get(number, number) != number:
            message.update({name: self._ids[number] for name in IDS if message.get(name) == number})
            return self._framing.encode(msgspec.json.encode(message))
        return self._framing.encode(bytes(item))

    def _compare(self, then: Frame | FrameError, now: Frame | FrameError) -> None:
        self._count += 1
        where = f"its frame {self._count}"
        before: Any = UnreadableTraffic if isinstance(then, FrameError) else value(then)
        after: Any = UnreadableTraffic if isinstance(now, FrameError) else value(now)
        if before is UnreadableTraffic or after is UnreadableTraffic:
            if then != now and before != HIDDEN:
                raise Different(f"{where} was {_shown(then)} and is now {_shown(now)}")
            return
        if method_of(before) is not None and id_of(after) is not None:
            self._ids[id_of(before)] = id_of(after)
            before.update({name: after[name] for name in IDS if name in before and name in after})
        difference = _difference(before, after)
        if difference:
            raise Different(f"{where} differs: {difference}")


def _script(traffic: Traffic, ours: Direction) -> Iterator[tuple[Direction, Frame | FrameError]]:
    """The frames in order; our own side as raw passages if some of its bytes are not frames."""
    whole = not any(isinstance(item, FrameError) for way, item in traffic.frames() if way == ours)
    splitter = FrameSplitter(traffic.origin.framing)
    for passage in traffic.passages:
        data = passage.data.encode("latin-1")
        frames = splitter.feed(passage.way, data)
        if passage.way != ours or whole:
            yield from ((passage.way, frame) for frame in frames)
        else:
            yield ours, Raw(data)
    for rest in splitter.end(ours) if whole else ():
        assert not isinstance(rest, FrameError)
        yield ours, Raw(rest)  # a last line without its line end


def _difference(before: Any, after: Any, where: str = "") -> str:
    """The first difference, with its place; empty when there is none."""
    if before == HIDDEN or (isinstance(before, str) and isinstance(after, str) and _fits(before, after)):
        return ""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before | after:
            place = f"{where}.{name}".lstrip(".")
            if name not in before or name not in after:
                return f"{escape_controls(place)} is {'missing now' if name in before else 'new'}"
            if found := _difference(before[name], after[name], place):
                return found
        return ""
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            if found := _difference(*pair, f"{where}[{number}]"):
                return found
        return ""
    if before == after and isinstance(before, bool) == isinstance(after, bool):
        return ""
    was, now = (_shown(msgspec.json.encode(value)) for value in (before, after))
    return f"{escape_controls(where) or 'it'} was {was} and is now {now}"


def _fits(before: str, after: str) -> bool:
    """Whether the texts are equal except for redacted parts."""
    return re.fullmatch(".*".join(map(re.escape, before.split(HIDDEN))), after, re.S) is not None


def _shown(frame: Frame | FrameError) -> str:
    if isinstance(frame, FrameError):
        return escape_controls(f"bytes that are not a frame ({frame.message})")
    text = escape_controls(bytes(frame[:SHOWN]).decode(errors="backslashreplace"))
    return text if len(frame) <= SHOWN else f"{text}… ({len(frame)} bytes)"
