"""RemotePlugin: a plugin of a running host, for the typed client of its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Unpack

from plughost.clock import Clock, LoopClock
from plughost.contracts.plugin_calls import CallOptions
from plughost.wire.messages import ABSENT

if TYPE_CHECKING:
    from plughost.control.client import ControlClient

MAX_NOTIFICATIONS = 8192
"""Notifications that the host has not answered; further ones are not sent."""


class RemotePlugin:
    """A plugin of a running host: the methods that typed clients use, as `plughost.Plugin` has them."""

    def __init__(self, client: ControlClient, name: str) -> None:
        self.name = name
        self.clock: Clock = LoopClock(asyncio.get_running_loop())
        self._client = client
        self._notifying: set[asyncio.Task[Any]] = set()
        self._pins: dict[object, asyncio.Task[Any]] = {}

    async def call(
        self, method: str, params: Any = ABSENT, *, type: Any = Any, **options: Unpack[CallOptions]
    ) -> Any:
        """`ControlClient.call` of this plugin."""
        return await self._client.call(self.name, method, params, type=type, **options)

    def notify(self, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Send a notification without waiting for the host, in order. False if the host has not taken
        thousands of them."""
        if len(self._notifying) >= MAX_NOTIFICATIONS:
            return False
        task = _start(self._client.notify(self.name, method, params, urgent=urgent))
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)
        return True

    def pin(self, reason: object) -> None:
        """Keep the plugin from being stopped for idleness until `unpin` is called with the same `reason`, or
        the client is closed."""
        self.unpin(reason)
        self._pins[reason] = _start(self._client.pin(self.name))

    def unpin(self, reason: object) -> None:
        """Undo `pin`."""
        if (task := self._pins.pop(reason, None)) is not None:
            task.cancel()


def _start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task whose failure nobody waits for."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
