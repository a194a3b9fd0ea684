"""Verbs: what a client may ask a host to do, apart from how it asks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from plughost.control.managed import ManagedPlugins
from plughost.control.messages import ControlRequest
from plughost.errors import InvalidSpec
from plughost.events import Event, Logged
from plughost.wire.messages import ABSENT

T = TypeVar("T")

SendEvent = Callable[[Any], None]
"""Sends an event of a call, or a line of a log, to the client."""
Drain = Callable[[], Awaitable[None]]
"""Waits until the client has read most of what was sent."""


class Verbs:
    """Carries out the requests of all clients of a host."""

    def __init__(self, managed: ManagedPlugins, on_stop: Callable[[], None]) -> None:
        self._managed = managed
        self._host = managed.host
        self._on_stop = on_stop
        self._changes: set[asyncio.Task[Any]] = set()
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

    async def carry_out(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> Any:
        """Carry out a request and return its result."""
        verb = _VERBS.get(request.do)
        if verb is None:
            raise InvalidSpec(f"unknown request {request.do!r}; known: {', '.join(_VERBS)}, cancel")
        return await verb(self, request, send_event, drain)

    async def _call(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> msgspec.Raw:
        plugin = await self._managed.find(request.plugin, request.timeout)
        result: msgspec.Raw = await plugin.call(
            request.method,
            request.params if bytes(request.params) else ABSENT,
            timeout=request.timeout,
            context=request.context,
            type=msgspec.Raw,
            on_event=send_event if request.progress else None,
        )
        return result

    async def _ps(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> dict[str, Any]:
        return {"pid": os.getpid(), "plugins": await self._managed.documents(usage=request.usage)}

    async def _inspect(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> dict[str, Any]:
        absent = self._managed.absent(request.plugin or "")
        if absent is not None:
            return absent
        plugin = await self._managed.find(request.plugin)
        return {**plugin.inspect(), **(await plugin.usage() if request.usage else {})}

    async def _change(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> dict[str, Any]:
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

    async def _logs(self, request: ControlRequest, send_event: SendEvent, drain: Drain) -> None:
        """The lines that are kept, oldest first, and with `follow` those that come."""
        wanted = [request.plugin] if request.plugin is not None else [*self._host.plugins]
        oldest = -1e300 if request.since is None else self._now() - request.since
        with self._host.events(only=Logged) as events:
            logs = self._host.context.services.logs
            lines = [line for name in wanted for line in logs.recent(name) if line.at >= oldest]
            for line in sorted(lines, key=lambda line: line.at):
                send_event(self._dated(line))
                await drain()
            while request.follow and (event := await events.get()) is not None:
                if request.plugin in (None, event.plugin):
                    send_event(self._dated(event))
                    await drain()

    def _dated(self, event: Event) -> dict[str, Any]:
        """An event with the time of day, in UTC."""
        moment = datetime.fromtimestamp(self._clock_offset + event.at, UTC)
        document: dict[str, Any] = msgspec.to_builtins(event)
        return {"time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **document}

    def _now(self) -> float:
        return self._host.context.clock.time()


_VERBS = {
    "call": Verbs._call,
    "ps": Verbs._ps,
    "inspect": Verbs._inspect,
    "logs": Verbs._logs,
    "start": Verbs._change,
    "restart": Verbs._change,
    "reload": Verbs._change,
    "stop": Verbs._change,
}
