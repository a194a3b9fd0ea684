"""Recorded traffic: records, redacts, saves and loads it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

import msgspec

from plughost._util.redaction.secret_set import HIDDEN
from plughost.engine.io.tap import Direction, Listener, Origin
from plughost.errors import InvalidSpec
from plughost.testing.frame_splitter import FrameSplitter, reader
from plughost.testing.redaction import TrafficRedactor
from plughost.wire.framing import Frame, FrameError

MOST_KEPT = 64 << 20
"""Maximum number of bytes that a recorder keeps in total."""
_OVERHEAD = 256
"""Bytes that each passage counts in addition to its data."""


class Passage(msgspec.Struct, frozen=True):
    """Bytes sent in one direction: `out` to the plugin, `in` from it."""

    way: Direction
    data: str
    """The bytes as latin-1 text, which has a character for every byte."""


class Traffic:
    """The recorded traffic between the host and one process, without stderr."""

    def __init__(self, origin: Origin, passages: list[Passage] | None = None) -> None:
        self.origin = origin
        self.passages = passages or []

    def add(self, way: Direction, data: bytes) -> None:
        """Appends bytes sent in one direction."""
        self.passages.append(Passage(way, data.decode("latin-1")))

    def bytes(self, way: Direction) -> bytes:
        """All bytes sent in one direction."""
        return "".join(each.data for each in self.passages if each.way == way).encode("latin-1")

    def frames(self) -> Iterator[tuple[Direction, Frame | FrameError]]:
        """Yields each frame where it was complete; at the end, incomplete frames."""
        splitter = FrameSplitter(self.origin.framing)
        for passage in self.passages:
            for frame in splitter.feed(passage.way, passage.data.encode("latin-1")):
                yield passage.way, frame
        for way in get_args(Direction):
            for frame in splitter.end(way):
                yield way, frame

    def redacted(self, names: Collection[str]) -> Traffic:
        """A copy without the values of the members of these names, wherever they occur."""
        redactor = TrafficRedactor(names)
        for _, frame in self.frames():
            redactor.learn(frame)
        framing = reader(self.origin.framing)
        clean = Traffic(self.origin)
        for way, frame in self.frames():
            clean.add(way, HIDDEN.encode() if framing is None else framing.encode(redactor.clean(frame)))
        return clean

    def save(self, path: Path) -> None:
        """Writes the traffic to a file that only this user may read, since it may contain secrets."""
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            for line in (self.origin, *self.passages):
                file.write(msgspec.json.encode(line) + b"\n")

    @classmethod
    def load(cls, path: Path) -> Traffic:
        """Reads a saved file. Raises InvalidSpec when it is not recorded traffic."""
        try:
            first, *rest = path.read_bytes().splitlines() or [b""]
            origin = msgspec.json.decode(first, type=Origin)
            passages = [msgspec.json.decode(line, type=Passage) for line in rest]
            _ = [passage.data.encode("latin-1") for passage in passages]
        except (OSError, ValueError) as error:
            raise InvalidSpec(f"{path} is not recorded traffic: {error}") from error
        return cls(origin, passages)


class Recorder:
    """A tap that records a host's traffic: `Host(tap=recorder)`. Each process is one conversation."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.conversations: list[Traffic] = []
        self.full = False
        """Whether the size limit was reached, so that the end is missing."""
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
        """Whether there is room. Once the recorder is full it stays full: a recording has no gaps."""
        self._left -= size + _OVERHEAD
        self.full = self.full or self._left < 0
        return not self.full

    def save(self, path: Path, redact: Collection[str] = ()) -> list[tuple[Path, Traffic]]:
        """Writes the first conversation to `path`, the others beside it: `path.2`, `path.3` …"""
        saved = []
        for number, traffic in enumerate(self.conversations, 1):
            place = path if number == 1 else path.with_name(f"{path.name}.{number}")
            (traffic.redacted(redact) if redact else traffic).save(place)
            saved.append((place, traffic))
        return saved
