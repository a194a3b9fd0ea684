"""The snapshot bus (publish/subscribe): stores the latest value of each topic and sends each publication to
all subscribers, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from plughost.engine.caller import Caller, Publication
from plughost.errors import InvalidSpec, Overloaded
from plughost.services.base import BaseService
from plughost.wire.base64_bytes import Octets, decode_plain

# Limits, so that a plugin cannot use up the memory of the host.
MAX_TOPIC = 1024
"""Characters of the name of a topic."""
MAX_PAYLOAD = (12 << 20) - (16 << 10)
"""Bytes of a payload: in base64, with its envelope, it fits into a frame of 16 MiB."""
MAX_TOPICS = 10_000
"""Topics whose latest value is of one publisher; and topics of one subscriber."""
MAX_STORED = 128 << 20
"""Bytes of one publisher's latest values."""

HOST = "host"
"""The name of the host as a publisher; it has no limits."""


class Snapshot(NamedTuple):
    """The latest value of a topic; version 0 and no payload before the first publication."""

    payload: bytes | None
    version: int
    publisher: str = HOST


class OnTopic(Protocol):
    """Params with a topic."""

    topic: str


class Publish(Protocol):
    """Params of a publication."""

    topic: str
    payload: Octets


Listener = Callable[[bytes], object]

NOTHING_YET = Snapshot(None, 0)


class PublisherUsage:
    """How many topics and bytes are stored of one publisher."""

    __slots__ = ("size", "topics")

    def __init__(self) -> None:
        self.topics = 0
        self.size = 0

    def add(self, topics: int, size: int) -> None:
        self.topics += topics
        self.size += size


class Snapshots(BaseService):
    """The snapshots service. A publisher does not get its own publications. A plugin that is not running gets
    none, and nothing is replayed."""

    def __init__(self) -> None:
        self._latest: dict[str, Snapshot] = {}
        self._usage: dict[str, PublisherUsage] = {}
        self._version = 0
        self._subscribers: dict[str, dict[Caller, None]] = {}
        self._subscribed: dict[Caller, set[str]] = {}
        self._listeners: dict[str, list[Listener]] = {}

    # Requests of plugins

    def on_process_started(self, caller: Caller) -> None:
        """Subscribe the process to the topics of its plugin."""
        for topic in caller.plugin.topics if caller.plugin is not None else ():
            self._subscribe(topic, caller)

    async def get(self, caller: Caller, params: OnTopic) -> Snapshot:
        """The latest value of a topic."""
        return self.latest(params.topic)

    async def subscribe(self, caller: Caller, params: OnTopic) -> None:
        """Subscribe a process to a topic. It is not stopped for idleness from now on."""
        _check_topic(params.topic)
        self._subscribe(params.topic, caller)
        if caller.plugin is not None and not caller.ended:
            caller.plugin.pin(caller)

    def publish(self, caller: Caller, params: Publish) -> None:
        """Publish a payload of a plugin."""
        self.put(params.topic, decode_plain(params.payload), publisher=caller.name)

    # Interface for the embedding program

    def latest(self, topic: str) -> Snapshot:
        """The latest value of a topic."""
        return self._latest.get(topic, NOTHING_YET)

    def listen(self, topic: str, listener: Listener) -> Callable[[], None]:
        """Subscribe the embedding program: `listener` is called by the event loop, in order. Returns a
        function that unsubscribes it."""
        self._listeners.setdefault(topic, []).append(listener)
        return lambda: self._listeners[topic].remove(listener)

    def subscribers(self, topic: str) -> list[str]:
        """The names of the plugins that are subscribed to a topic now."""
        return [caller.name for caller in self._subscribers.get(topic, ())]

    def put(self, topic: str, payload: bytes, publisher: str = HOST) -> int:
        """Publish a payload to all subscribers; returns its version."""
        self._store(topic, payload, publisher)
        subscribers = self._subscribers.get(topic)
        if subscribers:
            publication = Publication(topic, payload)
            for subscriber in [*subscribers]:
                if subscriber.name != publisher:
                    subscriber.deliver(publication)
        for listener in self._listeners.get(topic, ()):
            asyncio.get_running_loop().call_soon(listener, payload)
        return self._version

    def _store(self, topic: str, payload: bytes, publisher: str) -> None:
        _check_topic(topic)
        if len(payload) > MAX_PAYLOAD:
            raise InvalidSpec(f"a payload of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}")
        before = self.latest(topic)
        is_own = before.version > 0 and before.publisher == publisher
        usage = self._usage.setdefault(publisher, PublisherUsage())
        more_topics = 0 if is_own else 1
        more_bytes = len(payload) - (len(before.payload or b"") if is_own else 0)
        if publisher != HOST and (
            usage.topics + more_topics > MAX_TOPICS or usage.size + more_bytes > MAX_STORED
        ):
            raise Overloaded(
                f"the store already holds {usage.size} bytes on {usage.topics} topics of this plugin"
            )
        usage.add(more_topics, more_bytes)
        if before.version > 0 and not is_own:
            self._usage[before.publisher].add(-1, -len(before.payload or b""))
        self._version += 1
        self._latest[topic] = Snapshot(payload, self._version, publisher)

    def _subscribe(self, topic: str, caller: Caller) -> None:
        if caller.ended:
            return  # the process has ended
        if caller not in self._subscribed:
            self._subscribed[caller] = set()
            caller.on_end(lambda: self._unsubscribe_all(caller))
        topics = self._subscribed[caller]
        if topic not in topics and len(topics) >= MAX_TOPICS:
            raise Overloaded(f"it is subscribed to {len(topics)} topics already")
        topics.add(topic)
        self._subscribers.setdefault(topic, {})[caller] = None

    def _unsubscribe_all(self, caller: Caller) -> None:
        for topic in self._subscribed.pop(caller):
            subscribers = self._subscribers[topic]
            del subscribers[caller]
            if not subscribers:
                del self._subscribers[topic]
        if caller.plugin is not None:
            caller.plugin.unpin(caller)


def _check_topic(topic: str) -> None:
    if len(topic) > MAX_TOPIC:
        raise InvalidSpec(f"a topic of {len(topic)} characters is over the limit of {MAX_TOPIC}")
