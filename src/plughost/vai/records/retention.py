"""Retention of records, events and deliveries, and limits of a single record, with their defaults."""

from __future__ import annotations

from typing import Protocol

import msgspec

DAY = 86_400.0


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much of ended invocations is kept, and of events for hooks and their deliveries; None
    is no limit. Running invocations, events that wait and deliveries that are not settled are always kept."""

    age: float | None = 30 * DAY
    """Seconds since an invocation began."""
    size: int | None = 1 << 30
    """Bytes of all records; past that the oldest are removed first."""
    count: int | None = None
    """Number of ended invocations; past that the oldest are removed first."""
    event_age: float | None = 30 * DAY
    """Seconds since an event was stored. One with a delivery is kept as long as the delivery."""
    event_count: int | None = None
    """Number of events that are handed to deliveries; past that the oldest are removed first."""
    delivery_age: float | None = 30 * DAY
    """Seconds since a delivery was acknowledged or became a dead letter."""
    delivery_count: int | None = None
    """Number of deliveries that are acknowledged or dead; past that the oldest are removed first."""


class RecordLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a plugin may write into the record of one invocation, over all retries. The end of the
    invocation is always recorded."""

    events: int = 1000
    bytes: int = 1 << 20
    """Bytes of the events, as the plugin sent them or as they are recorded, whichever is more."""


class Pruned(msgspec.Struct, frozen=True):
    """The result of pruning, or of its dry run."""

    invocations: int = 0
    bytes: int = 0
    """Bytes of the records themselves, without the overhead of the file."""
    more: bool = False
    """Whether there is more to remove: this was one small batch."""


class PrunedState(msgspec.Struct, frozen=True):
    """The result of pruning events and deliveries, or of its dry run."""

    events: int = 0
    deliveries: int = 0
    more: bool = False
    """Whether there is more to remove, or to look at: this was one small batch."""


class Pruner(Protocol):
    """Removes what exceeds a retention, in small batches."""

    async def prune(self, now: float) -> PrunedState:
        """Removes one small batch of what is too old at that time of day."""
