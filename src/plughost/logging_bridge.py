"""LoggingBridge: forwards the events of a host to the standard library's `logging`."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Self

from plughost._util.text import escape_controls
from plughost.events import Dropped, Event, Exited, Linted, Logged, StateChanged
from plughost.host import Host

LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class LoggingBridge:
    """Logs each event of a host while it is open: `async with LoggingBridge(host):`.

    A record has the event as `record.event` and the plugin's name as `record.plugin`. Text that plugins wrote
    is escaped, so that a line of theirs stays one line. `logger` is `plughost` by default.
    """

    def __init__(self, host: Host, logger: logging.Logger | None = None, *, limit: int = 10_000) -> None:
        """At most `limit` events wait; of more, the oldest are lost, and their number is logged."""
        self._host = host
        self._logger = logger or logging.getLogger("plughost")
        self._limit = limit

    async def __aenter__(self) -> Self:
        self._events = self._host.events(self._limit)
        self._task = asyncio.create_task(self._forward(), name="plughost logging bridge")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Logs what is left in the queue, then ends."""
        self._events.close()
        await self._task

    async def _forward(self) -> None:
        missed = 0
        async for event in self._events:
            if self._events.missed > missed:
                self._logger.warning("%d events were lost: they came too fast", self._events.missed - missed)
                missed = self._events.missed
            level, message = describe_event(event)
            if self._logger.isEnabledFor(level):
                extra = {"plugin": event.plugin, "event": event}
                self._logger.log(
                    level, "%s: %s", escape_controls(event.plugin), escape_controls(message), extra=extra
                )


def describe_event(event: Event) -> tuple[int, str]:
    """The logging level of an event, and the event as a sentence."""
    if isinstance(event, Logged):
        return LEVELS.get(event.level, logging.INFO), event.message
    if isinstance(event, Exited):
        status = "an unknown status" if event.exit_status is None else f"status {event.exit_status}"
        level = logging.INFO if event.expected else logging.ERROR
        return level, f"its process has ended with {status}"
    if isinstance(event, StateChanged):
        level = logging.ERROR if event.new == "Quarantined" else logging.DEBUG
        return level, f"{event.old} -> {event.new}: {event.why}"
    if isinstance(event, Dropped):
        return logging.WARNING, f"dropped {event.what}"
    if isinstance(event, Linted):
        return logging.WARNING, event.what
    return logging.DEBUG, type(event).__name__
