"""How long the benchmark tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Many short rounds rather than a few long ones: noise comes in spells, and medians leave it out."""

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
    keys_rounds: int
    keys: float
    fan_out_rounds: int
    screen_rounds: int
    screen: float
    sessions_rounds: int
    sessions: int
    """Megabytes of session logs."""
    publishing: float
    draining_rounds: int
    waiting: int
    """Deliveries that wait to be drained."""
    hooked: int
    """The same, for a real hook."""
    jobs: int
    """The same, beside a peer."""
    old_rows: int
    opening_rounds: int
    """Beside the peers; so below. In each round everyone opens this many plugins."""
    plugins: int
    probes: int
    """How often each misfortune happens to everyone."""
    sufferers: int
    """How many suffer at a time."""


FULL = Effort(
    rounds=15,
    latency=0.1,
    throughput=0.2,
    spawns=15,
    imports=15,
    idle_rounds=3,
    neighbour_rounds=5,
    neighbour=2.5,
    keys_rounds=5,
    keys=4.0,
    fan_out_rounds=5,
    screen_rounds=3,
    screen=4.0,
    sessions_rounds=3,
    sessions=500,
    publishing=0.4,
    draining_rounds=3,
    waiting=100_000,
    hooked=5_000,
    jobs=5_000,
    old_rows=1_000_000,
    opening_rounds=3,
    plugins=15,
    probes=3,
    sufferers=1,
)
QUICK = Effort(
    rounds=5,
    latency=0.03,
    throughput=0.06,
    spawns=5,
    imports=5,
    idle_rounds=1,
    neighbour_rounds=1,
    neighbour=2.0,
    keys_rounds=1,
    keys=3.0,
    fan_out_rounds=1,
    screen_rounds=1,
    screen=3.0,
    sessions_rounds=1,
    sessions=100,
    publishing=0.1,
    draining_rounds=1,
    waiting=10_000,
    hooked=500,
    jobs=1_000,
    old_rows=100_000,
    opening_rounds=1,
    plugins=3,
    probes=1,
    sufferers=2,
)
