"""Usage data on the bus: sums often, calls seldom and in small chunks that no subscriber chokes on."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from plughost_sdk.chunks import split
from session_reader.call import Call

USAGE = "sessions.usage_data"
PROGRESS = "sessions.scan_progress"
CHUNK = 256 << 10
"""Bytes of msgpack: a subscriber with a screen has it read before anybody sees that it was busy."""
PACE = 0.008
"""Seconds between chunks: 30 MiB a second, which a subscriber in Python keeps up with."""


class Publisher:
    FEW = 2000
    """Calls that fit into a chunk or two, and are published whenever one is new."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def progress(self, scanned: int, total: int, project: str) -> None:
        told = {"scanned": scanned, "total": total, "current_project": project}
        self._host.snapshot.publish(PROGRESS, msgspec.msgpack.encode(told))

    def partial(self, aggregates: dict[str, Any]) -> None:
        """What is known so far; more is being counted."""
        for chunk in split(aggregates, time.time_ns(), partial=True):
            self._host.snapshot.publish(USAGE, chunk)

    def complete(self, aggregates: dict[str, Any], calls: list[Call]) -> None:
        for number, chunk in enumerate(split({**aggregates, "calls": calls}, time.time_ns(), target=CHUNK)):
            if number:
                time.sleep(PACE)
            self._host.snapshot.publish(USAGE, chunk)
