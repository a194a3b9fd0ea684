"""How long records of invocations are kept, and how much of each: values, with the usual ones."""

from __future__ import annotations

import msgspec

DAY = 86_400.0


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of ended invocations; None is no limit. Those that run are always kept."""

    age: float | None = 30 * DAY
    """Seconds since an invocation began."""
    size: int | None = 1 << 30
    """Bytes of all records; past that the oldest are removed first."""


class RecordLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a plugin may write into the record of one invocation, over all its tries. How the invocation
    ended is recorded in any case."""

    events: int = 1000
    bytes: int = 1 << 20
    """Of the events, as the plugin sent them or as they are recorded, whichever is more."""


class Pruned(msgspec.Struct, frozen=True):
    """Records that were removed, or would be."""

    invocations: int = 0
    bytes: int = 0
    """Of the records themselves."""
    more: bool = False
    """There is more to remove: this was one small bite."""
