"""One process of a plugin, as the host's services know it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from plughost.engine.session import Session
from plughost.wire.framing import Framing


class Publication:
    """Something published on a topic. It becomes a frame once, however many it is delivered to."""

    __slots__ = ("frames", "payload", "topic")

    def __init__(self, topic: str, payload: bytes) -> None:
        self.topic = topic
        self.payload = payload
        self.frames: dict[type[Session], bytes] = {}
        """By the kind of session that it is told in."""

    def frame(self, session: Session, framing: Framing) -> bytes:
        frame = self.frames[type(session)] = framing.encode(session.event(self.topic, self.payload))
        return frame


class Caller:
    """Who asks. It ends with its process, or when a new generation takes its place."""

    __slots__ = ("_ends", "_plugin", "deliver", "generation", "name", "warn")

    def __init__(
        self,
        name: str,
        generation: int,
        deliver: Callable[[Publication], bool],
        warn: Callable[[str], None],
    ) -> None:
        self.name = name
        """The plugin's. Two processes of one plugin may be there while it is reloaded."""
        self.generation = generation
        self.deliver = deliver
        """Tell it what was published; False when it is not there to hear it."""
        self.warn = warn
        """Tell the operator that something it sent was not used."""
        self._plugin: Callable[[], Any] = lambda: None
        self._ends: list[Callable[[], None]] | None = []

    @property
    def plugin(self) -> Any:
        """The plugin itself; None when its host is no more."""
        return self._plugin()

    @property
    def ended(self) -> bool:
        return self._ends is None

    def belongs_to(self, plugin: Any) -> None:
        self._plugin = weakref.ref(plugin)

    def on_end(self, callback: Callable[[], None]) -> None:
        """When it ends; at once when it has."""
        if self._ends is None:
            callback()
        else:
            self._ends.append(callback)

    def end(self) -> None:
        ends, self._ends = self._ends, None
        self.deliver = _unheard
        for callback in ends or ():
            callback()


def _unheard(publication: Publication) -> bool:
    return False
