"""What the host tells about its plugins, and how observers listen without slowing calls."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower):
    """Something that happened to one instance of a plugin."""

    plugin: str
    generation: int
    at: float
    """Seconds on the host's monotonic clock."""

    @property
    def size(self) -> int:
        """In bytes, of what the plugin itself has said."""
        return 0


class Spawned(Event, frozen=True):
    pid: int
    """The launcher's process id; the plugin runs below it."""


class StateChanged(Event, frozen=True):
    old: str
    new: str
    why: str


class Exited(Event, frozen=True):
    expected: bool
    exit_status: int | None
    stderr_tail: str


class Dropped(Event, frozen=True):
    """Something the plugin sent was not used: a late or doubled answer, noise, an unknown notification.
    Of a flood the first few are told, then how many more there were."""

    what: str
    head: str


class Linted(Event, frozen=True):
    """Something was accepted that should be better."""

    what: str


class Notified(Event, frozen=True):
    method: str
    params: Any

    @property
    def size(self) -> int:
        return len(bytes(self.params)) if isinstance(self.params, msgspec.Raw) else 0


class Logged(Event, frozen=True):
    """A line of the plugin's log."""

    level: str
    message: str
    fields: Any = None
    source: str = "log"
    """Where it comes from: the plugin's own `log` or `stderr`, or the host, that it `denied` something or
    saw a connection of it (`egress`), or has a remark on it (`host`)."""


MOST_BYTES = 64 << 20
"""Of what plugins have said, in one observer's queue."""


class Subscription:
    """A bounded queue of events. A slow observer loses the oldest and is told how many in `missed`."""

    def __init__(self, limit: int, only: type[Event]) -> None:
        self.missed = 0
        self._only = only
        self._limit = limit
        self._queue: deque[Event] = deque()
        self._size = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.closed = False

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._queue)

    def push(self, event: Event) -> None:
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
        """An event that waits already; None when there is none."""
        return self._pop() if self._queue else None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self.get()) is not None:
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventHub:
    """Hands events to whoever listens. With nobody listening, publishing costs one truth test."""

    def __init__(self) -> None:
        self._listening: list[weakref.ref[Subscription]] = []
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._listening)

    def subscribe(self, limit: int = 10_000, only: type[Event] = Event) -> Subscription:
        """A subscription lives until it is closed or nobody holds it any more."""
        subscription = Subscription(limit, only)
        if self._closed:
            subscription.close()
        self._listening.append(weakref.ref(subscription, self._listening.remove))
        return subscription

    def publish(self, event: Event) -> None:
        for reference in self._listening:
            subscription = reference()
            if subscription is not None and not subscription.closed:
                subscription.push(event)

    def close(self) -> None:
        self._closed = True
        for reference in [*self._listening]:
            subscription = reference()
            if subscription is not None:
                subscription.close()
