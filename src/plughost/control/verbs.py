"""Verbs: what a client may ask a host to do, apart from how it asks."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import msgspec

from plughost.catalogue import CatalogueEntry
from plughost.control.managed import ManagedPlugins
from plughost.control.messages import ControlRequest
from plughost.errors import InvalidSpec, Stopped
from plughost.events import CatalogueChanged, Event, Exited, Logged, StateChanged
from plughost.wire.messages import ABSENT

T = TypeVar("T")


class EventSink(Protocol):
    """Where the events of a request go: to the client that made it."""

    def send(self, document: Any) -> None:
        """Send an event of a call, a line of a log or a state."""

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent."""


class Verbs:
    """Carries out the requests of all clients of a host."""

    def __init__(self, managed: ManagedPlugins, on_stop: Callable[[], None]) -> None:
        self._managed = managed
        self._host = managed.host
        self._on_stop = on_stop
        self._changes: set[asyncio.Task[Any]] = set()
        self._priority_locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        """Held while a call with priority is open, by plugin and method."""
        self._clock_offset = time.time() - self._now()
        """Seconds between the host's clock and the time of day, read once: an event has one time only."""

    async def close(self) -> None:
        """Cancel all changes that are not done yet."""
        for task in self._changes:
            task.cancel()
        await asyncio.gather(*self._changes, return_exceptions=True)

    async def _finish(self, change: Coroutine[Any, Any, T]) -> T:
        """Carry out a change to its end, even if the client leaves: no plugin stays half restarted."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def carry_out(self, request: ControlRequest, sink: EventSink) -> Any:
        """Carry out a request and return its result."""
        verb = _VERBS.get(request.do)
        if verb is None:
            raise InvalidSpec(f"unknown request {request.do!r}; known: {', '.join(_VERBS)}, cancel")
        return await verb(self, request, sink)

    async def _call(self, request: ControlRequest, sink: EventSink) -> msgspec.Raw:
        async with self._priority_lock(request) if request.priority else nullcontext():
            plugin = await self._managed.find(request.plugin, request.timeout)
            result: msgspec.Raw = await plugin.call(
                request.method,
                _params(request),
                timeout=request.timeout,
                context=request.context,
                type=msgspec.Raw,
                on_event=sink.send if request.progress else None,
                priority=request.priority,
            )
        return result

    def _priority_lock(self, request: ControlRequest) -> asyncio.Lock:
        """Calls with priority overtake all others, so clients take turns. An ainb plugin is promised one
        render at a time."""
        return self._priority_locks.setdefault((request.plugin or "", request.method), asyncio.Lock())

    async def _notify(self, request: ControlRequest, sink: EventSink) -> dict[str, Any]:
        """Send a notification. It never waits: the next request of the client is read only afterwards."""
        plugin = self._host.plugins.get(request.plugin or "")
        if plugin is None:
            self._managed.check_known(request.plugin)
            return {"sent": False}
        return {"sent": plugin.notify(request.method, _params(request), urgent=request.urgent)}

    async def _ps(self, request: ControlRequest, sink: EventSink) -> dict[str, Any]:
        return {"pid": os.getpid(), "plugins": await self._managed.documents(usage=request.usage)}

    async def _inspect(self, request: ControlRequest, sink: EventSink) -> dict[str, Any]:
        absent = self._managed.absent(request.plugin or "")
        if absent is not None:
            return absent
        plugin = await self._managed.find(request.plugin)
        return {**plugin.inspect(), **(await plugin.usage() if request.usage else {})}

    async def _methods(self, request: ControlRequest, sink: EventSink) -> list[CatalogueEntry]:
        """What can be called of one plugin, or of all."""
        if request.plugin is not None:
            await self._managed.find(request.plugin)
        return self._host.catalogue.entries(request.plugin)

    async def _change(self, request: ControlRequest, sink: EventSink) -> dict[str, Any]:
        """Start, restart, reload or stop a plugin; reload the configuration; stop the host."""
        if request.plugin is None and request.do == "stop":
            self._on_stop()
            return {"done": "stop"}
        if request.plugin is None and request.do == "reload":
            return {"done": "reload", **msgspec.to_builtins(await self._finish(self._managed.reload_all()))}
        if request.plugin is None:
            raise InvalidSpec(f"{request.do} needs the name of a plugin")
        changes = {
            "start": self._managed.start,
            "restart": self._managed.restart,
            "reload": self._managed.reload,
            "stop": self._managed.stop,
        }
        await self._finish(changes[request.do](request.plugin))
        return {"done": request.do, "plugin": request.plugin}

    async def _logs(self, request: ControlRequest, sink: EventSink) -> None:
        """The lines that are kept, oldest first, and with `follow` those that come."""
        wanted = [request.plugin] if request.plugin is not None else [*self._host.plugins]
        oldest = -1e300 if request.since is None else self._now() - request.since
        with self._host.events(only=Logged) as events:
            logs = self._host.context.services.logs
            lines = [line for name in wanted for line in logs.recent(name) if line.at >= oldest]
            for line in sorted(lines, key=lambda line: line.at):
                sink.send(self._dated(line))
                await sink.drain()
            while request.follow and (event := await events.get()) is not None:
                if request.plugin in (None, event.plugin):
                    sink.send(self._dated(event))
                    await sink.drain()

    async def _watch(self, request: ControlRequest, sink: EventSink) -> None:
        """The state of a plugin and why it does not run: now, and whenever that changes. A client that reads
        slowly misses states in between, never the last one."""
        name = self._name(request)
        sent = None
        # An event only says that there may be a change, so one is enough.
        with self._host.events(limit=1, only=(StateChanged, Exited, CatalogueChanged)) as events:
            while True:
                state = self._managed.state(name)
                if state != sent:
                    sink.send(state)
                    sent = state
                    await sink.drain()
                if await events.get() is None:
                    raise Stopped("the host is stopping", plugin=name)

    async def _pin(self, request: ControlRequest, sink: EventSink) -> None:
        """Keep a plugin from being stopped for idleness until the request is cancelled."""
        with self._managed.pinned(self._name(request)):
            await asyncio.get_running_loop().create_future()

    def _name(self, request: ControlRequest) -> str:
        """The name of the plugin in the request; InvalidSpec if there is no such plugin."""
        self._managed.check_known(request.plugin)
        return request.plugin or ""

    def _dated(self, event: Event) -> dict[str, Any]:
        """An event with the time of day, in UTC."""
        moment = datetime.fromtimestamp(self._clock_offset + event.at, UTC)
        document: dict[str, Any] = msgspec.to_builtins(event)
        return {"time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **document}

    def _now(self) -> float:
        return self._host.context.clock.time()


def _params(request: ControlRequest) -> Any:
    return request.params if bytes(request.params) else ABSENT


_VERBS = {
    "call": Verbs._call,
    "notify": Verbs._notify,
    "ps": Verbs._ps,
    "inspect": Verbs._inspect,
    "methods": Verbs._methods,
    "logs": Verbs._logs,
    "watch": Verbs._watch,
    "pin": Verbs._pin,
    "start": Verbs._change,
    "restart": Verbs._change,
    "reload": Verbs._change,
    "stop": Verbs._change,
}
