"""Retention of records (age and total size), and limits of a single record, with their defaults."""

from __future__ import annotations

import msgspec

DAY = 86_400.0


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much of ended invocations is kept; None is no limit. Running ones are always kept."""

    age: float | None = 30 * DAY
    """Seconds since an invocation began."""
    size: int | None = 1 << 30
    """Bytes of all records; past that the oldest are removed first."""


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
