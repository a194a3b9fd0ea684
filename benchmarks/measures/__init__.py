"""What is measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.effort import Effort
from benchmarks.measures import (
    calling,
    confined,
    draining,
    fan_out,
    hooked,
    idle,
    importing,
    integrity,
    invocations,
    keys,
    latency,
    loop,
    neighbour,
    old_rows,
    procrastinate,
    publishing,
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
    "call": calling.measure,
    "sdk": sdk.measure,
    "storage": storage.measure,
    "storages": storages.measure,
    "confined": confined.measure,
    "invocations": invocations.measure,
    "publishing": publishing.measure,
    "draining": draining.measure,
    "hooked": hooked.measure,
    "procrastinate": procrastinate.measure,
    "old-rows": old_rows.measure,
    "pull": pull.measure,
    "integrity": integrity.measure,
    "screen": screen.measure,
    "sessions": sessions.measure,
    "socket": through_socket.measure,
}
