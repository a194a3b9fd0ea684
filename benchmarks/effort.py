"""How long the benchmark tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    rounds: int
    """Of latency and throughput."""
    latency: float
    """Seconds a contender has in each round; the same below."""
    throughput: float
    spawns: int
    imports: int
    idle_rounds: int
    neighbour_rounds: int
    neighbour: float


FULL = Effort(
    rounds=7,
    latency=0.25,
    throughput=0.4,
    spawns=15,
    imports=15,
    idle_rounds=3,
    neighbour_rounds=5,
    neighbour=2.5,
)
QUICK = Effort(
    rounds=3,
    latency=0.05,
    throughput=0.12,
    spawns=5,
    imports=5,
    idle_rounds=1,
    neighbour_rounds=1,
    neighbour=2.0,
)
