"""One side of recorded traffic, played again, without any I/O."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from plughost._util.redaction.redactor import HIDDEN
from plughost._util.text import escape_controls
from plughost.engine.tap import Direction
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
    """The other side has said something else than it said then."""


class Raw(bytes):
    """To be said as it is: no frame, or only a part of one."""


class Player:
    """Says what `ours` has said, once the other side has said what it said then.

    Frames are compared as JSON, so it does not matter how they were cut or spaced. A value that was redacted
    may be any. The other side may give its requests other ids than then: answers carry the new ones.
    """

    def __init__(self, traffic: Traffic, ours: Direction) -> None:
        framing = reader(traffic.origin.framing)
        if framing is None:
            raise InvalidSpec(
                f"the framing {traffic.origin.framing!r} is not known here, so it cannot be played"
            )
        self._framing = framing
        self._ours = ours
        self._script = deque(_script(traffic, ours))
        self._heard: deque[Frame | FrameError] = deque()
        self._count = 0
        self._ids: dict[Any, Any] = {}
        """What the other side calls its requests now, by what it called them then."""

    @property
    def expected(self) -> str | None:
        """What the other side has to say next; None when it has said all."""
        return next((_shown(item) for way, item in self._script if way != self._ours), None)

    def hear(self, data: bytes) -> bytes:
        """Take what the other side says; what to say to it now. `Different` when it does not belong here."""
        self._heard += self._framing.feed(data)
        said = b""
        while self._script:
            way, item = self._script[0]
            if way == self._ours:
                said += self._say(item)
            elif self._heard:
                self._compare(item, self._heard.popleft())
            else:
                break
            self._script.popleft()
        if self._heard and not self._script:
            raise Different(f"after all that was recorded, it said {_shown(self._heard[0])}")
        return said

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
    """Frames in their order; our own as raw passages when they do not all make frames."""
    whole = not any(isinstance(item, FrameError) for way, item in traffic.frames() if way == ours)
    apart = FrameSplitter(traffic.origin.framing)
    for passage in traffic.passages:
        data = passage.data.encode("latin-1")
        frames = apart.feed(passage.way, data)
        if passage.way != ours or whole:
            yield from ((passage.way, frame) for frame in frames)
        else:
            yield ours, Raw(data)
    for rest in apart.end(ours) if whole else ():
        assert not isinstance(rest, FrameError)
        yield ours, Raw(rest)  # a last line whose end never came


def _difference(before: Any, after: Any, where: str = "") -> str:
    """The first one, with its place; empty when there is none."""
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
    was, now = (_shown(msgspec.json.encode(one)) for one in (before, after))
    return f"{escape_controls(where) or 'it'} was {was} and is now {now}"


def _fits(before: str, after: str) -> bool:
    """Whether they are the same but for what was redacted."""
    return re.fullmatch(".*".join(map(re.escape, before.split(HIDDEN))), after, re.S) is not None


def _shown(frame: Frame | FrameError) -> str:
    if isinstance(frame, FrameError):
        return escape_controls(f"bytes that make no frame ({frame.message})")
    text = escape_controls(bytes(frame[:SHOWN]).decode(errors="backslashreplace"))
    return text if len(frame) <= SHOWN else f"{text}… ({len(frame)} bytes)"
