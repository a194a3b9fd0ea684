"""Events for observers (a plugin was spawned, exited, logged a line), and the queues that deliver them.

Each observer has a bounded queue of its own, so that a slow observer never slows a call.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower):
    """Base class of all events: something that happened to one instance of a plugin.

    Encoded as JSON, an event has a member `event` with its class name in lower case.
    """

    plugin: str
    generation: int
    at: float
    """Seconds on the host's monotonic clock."""

    @property
    def size(self) -> int:
        """Bytes of the event that the plugin itself sent; they count towards `MOST_BYTES`."""
        return 0


class Spawned(Event, frozen=True):
    """Sent when a process was started for the plugin; its program is not executed yet."""

    pid: int
    """The launcher's process id; the plugin runs below it."""


class StateChanged(Event, frozen=True):
    """Sent when an instance moved to another state of the lifecycle diagram, such as Spawning to Running."""

    old: str
    new: str
    why: str


class Exited(Event, frozen=True):
    """Sent when a process and all its descendants have ended; `expected` if the host had asked for that."""

    expected: bool
    exit_status: int | None
    stderr_tail: str


class Dropped(Event, frozen=True):
    """Sent when the host dropped something that the plugin sent: a late or duplicate answer, output that is
    no message, an unknown notification. In a flood the first few get an event each, the rest one with a
    count."""

    what: str
    head: str


class CatalogueChanged(Event, frozen=True):
    """What can be called of the plugin has changed: it was added, removed, reloaded, or its handshake told
    more."""


class Linted(Event, frozen=True):
    """Sent when the host accepted something in a handshake that the plugin's author should improve."""

    what: str


class Notified(Event, frozen=True):
    """Sent for each notification of the plugin that no service of the host handles."""

    method: str
    params: Any

    @property
    def size(self) -> int:
        return len(bytes(self.params)) if isinstance(self.params, msgspec.Raw) else 0


class Logged(Event, frozen=True):
    """Sent for each line of the plugin's log, whoever wrote it (`source`)."""

    level: str
    message: str
    fields: Any = None
    source: str = "log"
    """Who wrote the line. `log` and `stderr`: the plugin. The host itself: `denied` (it refused something),
    `failed` (a process crashed or did not start), `egress` (the plugin made a connection) and `host` (a
    remark on the plugin)."""

    @property
    def size(self) -> int:
        fields = len(msgspec.json.encode(self.fields)) if self.fields else 0
        return len(self.message) + DECODED_SIZE * fields


EventKind = type[Event] | tuple[type[Event], ...]
"""A class of events, or several."""
DECODED_SIZE = 16
"""Bytes of memory for a byte of JSON that is decoded, at most about that many."""
AT_ONCE = 32
"""Events that an observer takes without a turn of the event loop."""
MOST_BYTES = 64 << 20
"""Limit of one observer's queue: bytes that plugins sent, over all events in it."""


class Subscription:
    """A bounded queue of events for one observer. A slow observer loses the oldest; `missed` counts them."""

    def __init__(self, limit: int, only: EventKind) -> None:
        self.missed = 0
        self._only = only
        self._limit = limit
        self._queue: deque[Event] = deque()
        self._size = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.closed = False

    def __len__(self) -> int:
        """How many events are in the queue."""
        return len(self._queue)

    def push(self, event: Event) -> None:
        """Add an event, if it is of the kind subscribed to; drop the oldest ones beyond the limits."""
        if not isinstance(event, self._only):
            return
        self._queue.append(event)
        self._size += event.size
        while len(self._queue) > self._limit or (self._size > MOST_BYTES and len(self._queue) > 1):
            self._pop()
            self.missed += 1
        self._wake()

    def _pop(self) -> Event:
        event = self._queue.popleft()
        self._size -= event.size
        return event

    def close(self) -> None:
        """No more events: iteration ends once the queue is empty."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def get(self) -> Event | None:
        """The next event; None once the subscription is closed and empty."""
        while not self._queue:
            if self.closed:
                return None
            self._waiters.append(asyncio.get_running_loop().create_future())
            await self._waiters[-1]
        return self.take()

    def take(self) -> Event | None:
        """The next event without waiting; None when the queue is empty."""
        return self._pop() if self._queue else None

    async def __aiter__(self) -> AsyncIterator[Event]:
        for number in itertools.count(1):
            if (event := await self.get()) is None:
                return
            yield event
            if number % AT_ONCE == 0:  # thousands may wait: others have their turn
                await asyncio.sleep(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventHub:
    """Publishes events to all subscriptions. It is false while nobody subscribes: callers test that first, so
    that an event nobody wants costs one truth test."""

    def __init__(self) -> None:
        self._subscriptions: list[weakref.ref[Subscription]] = []
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._subscriptions)

    def subscribe(self, limit: int = 10_000, only: EventKind = Event) -> Subscription:
        """A new subscription to events of the class or classes `only`. It ends when it is closed or garbage
        collected."""
        subscription = Subscription(limit, only)
        if self._closed:
            subscription.close()
        self._subscriptions.append(weakref.ref(subscription, self._subscriptions.remove))
        return subscription

    def publish(self, event: Event) -> None:
        """Add an event to the queue of every open subscription."""
        for reference in self._subscriptions:
            subscription = reference()
            if subscription is not None and not subscription.closed:
                subscription.push(event)

    def close(self) -> None:
        """Close every subscription, and later ones as soon as they are made."""
        self._closed = True
        for reference in [*self._subscriptions]:
            subscription = reference()
            if subscription is not None:
                subscription.close()
