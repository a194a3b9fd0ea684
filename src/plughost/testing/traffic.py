"""Recorded traffic: kept, redacted, saved, and read again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

import msgspec

from plughost._util.redaction.redactor import HIDDEN
from plughost.engine.tap import Direction, Listener, Origin
from plughost.errors import InvalidSpec
from plughost.testing.frame_splitter import FrameSplitter, reader
from plughost.testing.redaction import TrafficRedactor
from plughost.wire.framing import Frame, FrameError

MOST_KEPT = 64 << 20
"""Bytes that a recorder keeps, all in all."""
_OVERHEAD = 256
"""Of a passage, beside its bytes."""


class Passage(msgspec.Struct, frozen=True):
    """Bytes that went one way: `out` to the plugin, `in` from it."""

    way: Direction
    data: str
    """As latin-1, so that any byte has a character."""


class Traffic:
    """What went between the host and one process. What it wrote to stderr is no part of it."""

    def __init__(self, origin: Origin, passages: list[Passage] | None = None) -> None:
        self.origin = origin
        self.passages = passages or []

    def add(self, way: Direction, data: bytes) -> None:
        self.passages.append(Passage(way, data.decode("latin-1")))

    def bytes(self, way: Direction) -> bytes:
        """Everything that went one way."""
        return "".join(each.data for each in self.passages if each.way == way).encode("latin-1")

    def frames(self) -> Iterator[tuple[Direction, Frame | FrameError]]:
        """Each frame in the place where it was whole; at the end, what never became whole."""
        apart = FrameSplitter(self.origin.framing)
        for passage in self.passages:
            for frame in apart.feed(passage.way, passage.data.encode("latin-1")):
                yield passage.way, frame
        for way in get_args(Direction):
            for frame in apart.end(way):
                yield way, frame

    def redacted(self, names: Collection[str]) -> Traffic:
        """The same without the values of the members of these names, wherever they are."""
        redactor = TrafficRedactor(names)
        for _, frame in self.frames():
            redactor.learn(frame)
        framing = reader(self.origin.framing)
        clean = Traffic(self.origin)
        for way, frame in self.frames():
            clean.add(way, HIDDEN.encode() if framing is None else framing.encode(redactor.clean(frame)))
        return clean

    def save(self, path: Path) -> None:
        """For this user's eyes: what is not redacted may be anything."""
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            for line in (self.origin, *self.passages):
                file.write(msgspec.json.encode(line) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Traffic:
        try:
            first, *rest = path.read_bytes().splitlines() or [b""]
            origin = msgspec.json.decode(first, type=Origin)
            passages = [msgspec.json.decode(line, type=Passage) for line in rest]
            _ = [passage.data.encode("latin-1") for passage in passages]
        except (OSError, ValueError) as error:
            raise InvalidSpec(f"{path} is no recorded traffic: {error}") from error
        return cls(origin, passages)


class Recorder:
    """Keeps what goes over a host's wires: `Host(tap=recorder)`. Each process is a conversation."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.conversations: list[Traffic] = []
        self.full = False
        """Whether something is missing, because there was too much."""
        self._left = most

    def __call__(self, origin: Origin) -> Listener | None:
        if not self._take(0):
            return None
        traffic = Traffic(origin)
        self.conversations.append(traffic)

        def listen(way: Direction, data: bytes) -> None:
            if self._take(len(data)):
                traffic.add(way, data)

        return listen

    def _take(self, size: int) -> bool:
        """Whether there is room. Once there was none there never is: a record has no holes."""
        self._left -= size + _OVERHEAD
        self.full = self.full or self._left < 0
        return not self.full

    def save(self, path: Path, redact: Collection[str] = ()) -> list[tuple[Path, Traffic]]:
        """The first conversation to `path`, the others beside it: `path.2`, `path.3` …"""
        saved = []
        for number, traffic in enumerate(self.conversations, 1):
            place = path if number == 1 else path.with_name(f"{path.name}.{number}")
            (traffic.redacted(redact) if redact else traffic).save(place)
            saved.append((place, traffic))
        return saved
