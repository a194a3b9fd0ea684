"""ProgressBudget: counts and limits the progress events that a plugin sends for a call before its answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

OnEvent = Callable[[msgspec.Raw], object]
"""Gets the payload of each progress event, undecoded."""


class ProgressBudget:
    """The number and bytes of the progress events of one call so far, and the callback that gets them."""

    __slots__ = ("_bytes", "_count", "on_event")

    def __init__(self, on_event: OnEvent | None = None) -> None:
        self.on_event = on_event
        """Called at the end of a read, when the caller's code may do anything to the plugin."""
        self._count = 0
        self._bytes = 0

    def excess(self, payload: msgspec.Raw, most: int, most_bytes: int) -> str | None:
        """Count an event; a message when that is over the limits, otherwise None."""
        self._count += 1
        self._bytes += len(memoryview(payload))
        if self._count > most:
            return f"it sent more than {most} events"
        if self._bytes > most_bytes:
            return f"it sent events of more than {most_bytes} bytes in total"
        return None
