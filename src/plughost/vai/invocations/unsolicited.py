"""What a process says that belongs to no request of its own: nobody's result, and told in a record.

Nothing tells which of its invocations said it. It stands in the record of the one that ends next in that
process, or of its last one when the process is gone, which has the same package, export and, unless it is
inline, tenant.
"""

from __future__ import annotations

from plughost.events import Dropped
from plughost.host import Host

WAITING = 1000
"""Of all processes, until somebody asks."""
MOST = 20
"""Of one process at a time."""


class UnsolicitedMessages:
    def __init__(self, host: Host) -> None:
        self._events = host.events(WAITING, only=Dropped)
        self._known: dict[str, list[str]] = {}
        """By the name of the process."""

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._known or self._events)

    def take(self, process: str) -> list[str]:
        """What that process has said, once."""
        while isinstance(event := self._events.take(), Dropped):
            said = self._known.setdefault(event.plugin, [])
            if len(said) < MOST:
                said.append(event.what)
        return self._known.pop(process, [])
