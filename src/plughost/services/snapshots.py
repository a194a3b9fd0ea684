"""The snapshot bus: the latest value of each topic, and every publish to every subscriber, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from plughost.base.errors import Overloaded
from plughost.runtime.caller import Caller, Publication
from plughost.wire.octets import Octets, plain

MOST_TOPICS = 10_000
"""Of one publisher and of one subscriber: a plugin does not grow the host without end."""


class Snapshot(NamedTuple):
    """The latest value; version 0 and no payload before the first publish."""

    payload: bytes | None
    version: int


class OnTopic(Protocol):
    topic: str


class Publish(Protocol):
    topic: str
    payload: Octets


Listener = Callable[[bytes], object]

NOTHING_YET = Snapshot(None, 0)


class Snapshots:
    """A publisher does not hear itself. Whoever is not running hears nothing, and nothing is replayed."""

    def __init__(self) -> None:
        self._latest: dict[str, Snapshot] = {}
        self._version = 0
        self._subscribers: dict[str, dict[Caller, None]] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._topics: dict[str, int] = {}
        """How many topics each publisher has begun."""

    def joined(self, caller: Caller) -> None:
        """A process has started: what its plugin is always subscribed to counts from now on."""
        for topic in caller.plugin.topics:
            self._add(topic, caller)

    async def get(self, caller: Caller, params: OnTopic) -> Snapshot:
        return self.latest(params.topic)

    async def subscribe(self, caller: Caller, params: OnTopic) -> None:
        self._add(params.topic, caller)
        if caller.plugin is not None:
            caller.plugin.pin(caller)
            caller.on_end(lambda: _unpin(caller))

    def publish(self, caller: Caller, params: Publish) -> None:
        self.put(params.topic, plain(params.payload), publisher=caller.name)

    def latest(self, topic: str) -> Snapshot:
        return self._latest.get(topic, NOTHING_YET)

    def listen(self, topic: str, listener: Listener) -> Callable[[], None]:
        """The embedding program's own subscription, called by the loop, in order; what is returned ends it."""
        self._listeners.setdefault(topic, []).append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def subscribers(self, topic: str) -> list[str]:
        """The plugins that hear of a topic now."""
        return [caller.name for caller in self._subscribers.get(topic, ())]

    def put(self, topic: str, payload: bytes, publisher: str = "host") -> int:
        """Publish: the new version, and everybody who listens is told."""
        if topic not in self._latest:
            self._begin(topic, publisher)
        self._version += 1
        self._latest[topic] = Snapshot(payload, self._version)
        subscribers = self._subscribers.get(topic)
        if subscribers:
            publication = Publication(topic, payload)
            for subscriber in [*subscribers]:
                if subscriber.name != publisher:
                    subscriber.deliver(publication)
        for listener in self._listeners.get(topic, ()):
            asyncio.get_running_loop().call_soon(listener, payload)
        return self._version

    def _begin(self, topic: str, publisher: str) -> None:
        begun = self._topics.get(publisher, 0)
        if begun >= MOST_TOPICS and publisher != "host":
            raise Overloaded(f"it has published on {begun} topics already")
        self._topics[publisher] = begun + 1

    def _add(self, topic: str, caller: Caller) -> None:
        subscribers = self._subscribers.setdefault(topic, {})
        if caller not in subscribers:
            subscribers[caller] = None
            caller.on_end(lambda: self._leave(topic, caller))

    def _leave(self, topic: str, caller: Caller) -> None:
        subscribers = self._subscribers.get(topic, {})
        subscribers.pop(caller, None)
        if not subscribers:
            self._subscribers.pop(topic, None)


def _unpin(caller: Caller) -> None:
    if caller.plugin is not None:
        caller.plugin.unpin(caller)
