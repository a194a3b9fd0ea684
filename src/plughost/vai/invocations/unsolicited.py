"""Unsolicited messages: what a process sent without a request that it could belong to, kept for the record.

Nobody knows which invocation caused such a message. It is recorded with the invocation that ends next in that
process, or with its last one when the process is gone. That one has the same package, export and, unless the
class is inline, tenant.
"""

from __future__ import annotations

from plughost.events import Dropped
from plughost.host import Host

MAX_QUEUED = 1000
"""Messages of all processes that are queued until `take`."""
MAX_PER_PROCESS = 20
"""Messages of one process that are kept."""


class UnsolicitedMessages:
    """Collects the messages that the host dropped, by process."""

    def __init__(self, host: Host) -> None:
        self._events = host.events(MAX_QUEUED, only=Dropped)
        self._messages: dict[str, list[str]] = {}
        """By the name of the process."""

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._messages or self._events)

    def take(self, process: str) -> list[str]:
        """The messages of that process, once."""
        while isinstance(event := self._events.take(), Dropped):
            messages = self._messages.setdefault(event.plugin, [])
            if len(messages) < MAX_PER_PROCESS:
                messages.append(event.what)
        return self._messages.pop(process, [])
