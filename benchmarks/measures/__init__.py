"""What is measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.effort import Effort
from benchmarks.measures import (
    confined,
    deliveries,
    fan_out,
    idle,
    importing,
    integrity,
    invocations,
    keys,
    latency,
    loop,
    neighbour,
    pull,
    screen,
    sdk,
    sessions,
    spawn,
    storage,
    storages,
    through_socket,
    throughput,
)
from benchmarks.sheet import Sheet

Measure = Callable[[Effort, Path | None], list[Sheet]]
"""With what effort, and where the peers' environment is, if there is one."""

MEASURES: dict[str, Measure] = {
    "latency": latency.measure,
    "throughput": throughput.measure,
    "spawn": spawn.measure,
    "idle": idle.measure,
    "neighbour": neighbour.measure,
    "loop": loop.measure,
    "keys": keys.measure,
    "fan-out": fan_out.measure,
    "import": importing.measure,
    "sdk": sdk.measure,
    "storage": storage.measure,
    "storages": storages.measure,
    "confined": confined.measure,
    "invocations": invocations.measure,
    "deliveries": deliveries.measure,
    "pull": pull.measure,
    "integrity": integrity.measure,
    "screen": screen.measure,
    "sessions": sessions.measure,
    "socket": through_socket.measure,
}
