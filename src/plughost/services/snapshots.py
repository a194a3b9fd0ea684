"""The snapshot bus: the latest value of each topic, and every publish to every subscriber, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from plughost.engine.caller import Caller, Publication
from plughost.errors import InvalidSpec, Overloaded
from plughost.wire.base64_bytes import Octets, decode_plain

# A plugin does not grow the host without end.
LONGEST_TOPIC = 1024
LARGEST_PAYLOAD = (12 << 20) - (16 << 10)
"""In base64, with its envelope, it fits into a frame of 16 MiB."""
MOST_TOPICS = 10_000
"""On which one publisher has the latest word; and of one subscriber."""
MOST_KEPT = 128 << 20
"""Bytes of one publisher's latest values."""

HOST = "host"
"""The publisher that is no plugin, and has no limits."""


class Snapshot(NamedTuple):
    """The latest value; version 0 and no payload before the first publish."""

    payload: bytes | None
    version: int
    publisher: str = HOST


class OnTopic(Protocol):
    topic: str


class Publish(Protocol):
    topic: str
    payload: Octets


Listener = Callable[[bytes], object]

NOTHING_YET = Snapshot(None, 0)


class KeptSnapshot:
    """What the store holds of one publisher."""

    __slots__ = ("size", "topics")

    def __init__(self) -> None:
        self.topics = 0
        self.size = 0

    def add(self, topics: int, size: int) -> None:
        self.topics += topics
        self.size += size


class Snapshots:
    """A publisher does not hear itself. Whoever is not running hears nothing, and nothing is replayed."""

    def __init__(self) -> None:
        self._latest: dict[str, Snapshot] = {}
        self._kept: dict[str, KeptSnapshot] = {}
        self._version = 0
        self._subscribers: dict[str, dict[Caller, None]] = {}
        self._subscribed: dict[Caller, set[str]] = {}
        self._listeners: dict[str, list[Listener]] = {}

    # What plugins ask and tell

    def joined(self, caller: Caller) -> None:
        """A process has started: what its plugin is always subscribed to counts from now on."""
        for topic in caller.plugin.topics:
            self._add(topic, caller)

    async def get(self, caller: Caller, params: OnTopic) -> Snapshot:
        return self.latest(params.topic)

    async def subscribe(self, caller: Caller, params: OnTopic) -> None:
        _check_topic(params.topic)
        self._add(params.topic, caller)
        if caller.plugin is not None and not caller.ended:
            caller.plugin.pin(caller)

    def publish(self, caller: Caller, params: Publish) -> None:
        self.put(params.topic, decode_plain(params.payload), publisher=caller.name)

    # What the embedding program does

    def latest(self, topic: str) -> Snapshot:
        return self._latest.get(topic, NOTHING_YET)

    def listen(self, topic: str, listener: Listener) -> Callable[[], None]:
        """The embedding program's own subscription, called by the loop, in order; the result ends it."""
        self._listeners.setdefault(topic, []).append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def subscribers(self, topic: str) -> list[str]:
        """The plugins that hear of a topic now."""
        return [caller.name for caller in self._subscribers.get(topic, ())]

    def put(self, topic: str, payload: bytes, publisher: str = HOST) -> int:
        """Publish: the new version, and everybody who listens is told."""
        self._keep(topic, payload, publisher)
        subscribers = self._subscribers.get(topic)
        if subscribers:
            publication = Publication(topic, payload)
            for subscriber in [*subscribers]:
                if subscriber.name != publisher:
                    subscriber.deliver(publication)
        for listener in self._listeners.get(topic, ()):
            asyncio.get_running_loop().call_soon(listener, payload)
        return self._version

    def _keep(self, topic: str, payload: bytes, publisher: str) -> None:
        _check_topic(topic)
        if len(payload) > LARGEST_PAYLOAD:
            raise InvalidSpec(f"a payload of {len(payload)} bytes is over the limit of {LARGEST_PAYLOAD}")
        before = self.latest(topic)
        mine = before.version > 0 and before.publisher == publisher
        kept = self._kept.setdefault(publisher, KeptSnapshot())
        more_topics = 0 if mine else 1
        more = len(payload) - (len(before.payload or b"") if mine else 0)
        if publisher != HOST and (kept.topics + more_topics > MOST_TOPICS or kept.size + more > MOST_KEPT):
            raise Overloaded(f"the store holds {kept.size} bytes on {kept.topics} topics of it already")
        kept.add(more_topics, more)
        if before.version > 0 and not mine:
            self._kept[before.publisher].add(-1, -len(before.payload or b""))
        self._version += 1
        self._latest[topic] = Snapshot(payload, self._version, publisher)

    def _add(self, topic: str, caller: Caller) -> None:
        if caller.ended:
            return  # nobody would hear it
        if caller not in self._subscribed:
            self._subscribed[caller] = set()
            caller.on_end(lambda: self._leave(caller))
        topics = self._subscribed[caller]
        if topic not in topics and len(topics) >= MOST_TOPICS:
            raise Overloaded(f"it is subscribed to {len(topics)} topics already")
        topics.add(topic)
        self._subscribers.setdefault(topic, {})[caller] = None

    def _leave(self, caller: Caller) -> None:
        for topic in self._subscribed.pop(caller):
            subscribers = self._subscribers[topic]
            del subscribers[caller]
            if not subscribers:
                del self._subscribers[topic]
        if caller.plugin is not None:
            caller.plugin.unpin(caller)


def _check_topic(topic: str) -> None:
    if len(topic) > LONGEST_TOPIC:
        raise InvalidSpec(f"a topic of {len(topic)} characters is over the limit of {LONGEST_TOPIC}")
