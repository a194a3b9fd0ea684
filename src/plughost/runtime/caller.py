"""One process of a plugin, as the host's services know it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

from plughost.runtime.session import Session
from plughost.wire.framing import Framing


class Publication:
    """Something published on a topic. It becomes a frame once, however many it is delivered to."""

    __slots__ = ("_frames", "payload", "topic")

    def __init__(self, topic: str, payload: bytes) -> None:
        self.topic = topic
        self.payload = payload
        self._frames: dict[type[Session], bytes] = {}

    def frame(self, session: Session, framing: Framing) -> bytes:
        frame = self._frames.get(type(session))
        if frame is None:
            frame = framing.encode(session.event(self.topic, self.payload))
            self._frames[type(session)] = frame
        return frame


class Line(Protocol):
    """What a caller is reached through."""

    def deliver(self, publication: Publication) -> bool: ...

    def warn(self, what: str) -> None: ...


class Caller:
    """Who asks. It ends with its process, or when a new generation takes its place."""

    __slots__ = ("_ends", "_line", "_plugin", "generation", "name")

    def __init__(self, name: str, generation: int, line: Line) -> None:
        self.name = name
        """The plugin's. Two processes of one plugin may be there while it is reloaded."""
        self.generation = generation
        self._plugin: Callable[[], Any] = lambda: None
        self._line = line
        self._ends: list[Callable[[], None]] | None = []

    @property
    def plugin(self) -> Any:
        """The plugin itself; None when its host is no more."""
        return self._plugin()

    def belongs_to(self, plugin: Any) -> None:
        self._plugin = weakref.ref(plugin)

    def deliver(self, publication: Publication) -> bool:
        """Tell it what was published; False when it is not there to hear it."""
        return self._ends is not None and self._line.deliver(publication)

    def warn(self, what: str) -> None:
        """Tell the operator that something it sent was not used."""
        self._line.warn(what)

    def on_end(self, callback: Callable[[], None]) -> None:
        """When it ends; at once when it has."""
        if self._ends is None:
            callback()
        else:
            self._ends.append(callback)

    def end(self) -> None:
        ends, self._ends = self._ends, None
        for callback in ends or ():
            callback()
