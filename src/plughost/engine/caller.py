"""Caller: the handle by which services know one process of a plugin; and Publication, a message on a
topic."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from plughost.clock import Clock
from plughost.engine.session import Session
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.wire.framing import Framing


class Publication:
    """A payload published on a topic. It is encoded once per kind of session, however many subscribers get
    it."""

    __slots__ = ("frames", "payload", "topic")

    def __init__(self, topic: str, payload: bytes) -> None:
        self.topic = topic
        self.payload = payload
        self.frames: dict[type[Session], bytes] = {}
        """The encoded frames by class of session."""

    def frame(self, session: Session, framing: Framing) -> bytes:
        """Encode it for this kind of session, and remember the frame."""
        frame = self.frames[type(session)] = framing.encode(
            session.encode_publication(self.topic, self.payload)
        )
        return frame


class CallingPlugin(Protocol):
    """The plugin whose process makes a request, as services see it."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that it has."""

    @property
    def operator_access(self) -> OperatorAccess:
        """The access that the operator granted by name."""

    @property
    def folder(self) -> str | None:
        """Its own folder, which tells it from another plugin of the same name."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that each of its processes is subscribed to from the start."""

    @property
    def clock(self) -> Clock:
        """The clock of its host."""

    def pin(self, reason: object) -> None:
        """Keep it from being stopped for idleness."""

    def unpin(self, reason: object) -> None:
        """Undo `pin`."""


class Caller:
    """The process that makes a request, as services see it. It ends with its process, or when a new
    generation replaces it."""

    __slots__ = ("_end_callbacks", "_plugin", "deliver", "generation", "name", "warn")

    def __init__(
        self,
        name: str,
        generation: int,
        deliver: Callable[[Publication], bool],
        warn: Callable[[str], None],
    ) -> None:
        self.name = name
        """The name of the plugin. While it is reloaded, two processes may have it."""
        self.generation = generation
        self.deliver = deliver
        """Send a publication to the process; False when it is not running."""
        self.warn = warn
        """Report to the operator that something the process sent was dropped."""
        self._plugin: Callable[[], CallingPlugin | None] = lambda: None
        self._end_callbacks: list[Callable[[], None]] | None = []

    @property
    def plugin(self) -> CallingPlugin | None:
        """The plugin; None when its host has been garbage collected."""
        return self._plugin()

    @property
    def ended(self) -> bool:
        """Whether the process has ended or was replaced."""
        return self._end_callbacks is None

    def belongs_to(self, plugin: CallingPlugin) -> None:
        """Set `plugin`, by a weak reference."""
        self._plugin = weakref.ref(plugin)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` when it ends, or at once if it has ended."""
        if self._end_callbacks is None:
            callback()
        else:
            self._end_callbacks.append(callback)

    def end(self) -> None:
        """Run the callbacks of `on_end`; nothing is delivered any more."""
        callbacks, self._end_callbacks = self._end_callbacks, None
        self.deliver = _deliver_nothing
        for callback in callbacks or ():
            callback()


def _deliver_nothing(publication: Publication) -> bool:
    return False
