"""PluginMetrics: counters and latencies of one plugin, for `ps`, events and exporters.

Every call is recorded, so recording must cost a fraction of a microsecond: a call appends its latency to a
list, which is counted in a histogram of fixed size now and then.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import frexp, ldexp
from typing import Any

import msgspec

from plughost.errors import PluginError

PER_OCTAVE = 8
"""Buckets for each doubling of the latency: a quantile is at most 6 % off."""
SHORTEST = -18
"""The first bucket begins at 2^-19 s, about 2 µs; a shorter latency is counted there."""
BUCKETS = 32 * PER_OCTAVE
"""The last bucket ends at 2^13 s, more than two hours; a longer latency is counted there."""
BATCH = 1024
"""Latencies that are collected before they are counted."""
_OFFSET = -(SHORTEST + 1) * PER_OCTAVE


class Latencies:
    """A histogram of latencies with logarithmic buckets. Latencies are collected first and counted in
    batches."""

    __slots__ = ("_counts", "recent")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        """By bucket; most plugins use few of them, and idle ones none."""
        self.recent: list[float] = []
        """Latencies in seconds that are not counted yet. Who appends one calls `count_recent` when there are
        `BATCH` of them."""

    def count_recent(self) -> None:
        """Count the latencies of `recent` in their buckets."""
        recent = sorted(self.recent)
        self.recent.clear()
        first = 0
        while first < len(recent):
            bucket = _bucket(recent[first])
            end = len(recent) if bucket == BUCKETS - 1 else bisect_left(recent, _bound(bucket + 1), first)
            self._counts[bucket] = self._counts.get(bucket, 0) + end - first
            first = end

    def add(self, others: Latencies) -> None:
        """Count the latencies of another histogram, too."""
        others.count_recent()
        for bucket, count in others._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count

    @property
    def count(self) -> int:
        """How many latencies there are."""
        return sum(self._counts.values()) + len(self.recent)

    def quantile(self, part: float) -> float | None:
        """The latency in seconds that `part` of all calls did not exceed; None before the first call."""
        self.count_recent()
        rank = part * self.count
        if not rank:
            return None
        buckets = sorted(self._counts)
        seen = accumulate(self._counts[bucket] for bucket in buckets)
        bucket = next(bucket for bucket, count in zip(buckets, seen, strict=True) if count >= rank)
        return _bound(bucket + 0.5)


def _bucket(seconds: float) -> int:
    mantissa, exponent = frexp(max(seconds, 1e-9))
    return min(max(int((exponent + 2 * mantissa) * PER_OCTAVE + _OFFSET), 0), BUCKETS - 1)


def _bound(bucket: float) -> float:
    """The latency at which a bucket begins."""
    octave, step = divmod(bucket, PER_OCTAVE)
    return ldexp(1 + step / PER_OCTAVE, int(octave) + SHORTEST - 1)


class LastError(msgspec.Struct, frozen=True):
    """The last failure of a plugin: its code, its message, and when it happened."""

    code: str
    message: str
    at: float
    """Seconds on the host's monotonic clock."""


class PluginMetrics:
    """Everything that is measured of one plugin since it was added. Read the attributes, or `snapshot`."""

    __slots__ = (
        "_failed", "cancelled", "failures", "last_error", "latencies", "refused", "restarts",
        "started_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started_at: float | None = None
        """When its newest process was started, on the host's monotonic clock; None when none runs."""
        self.restarts = 0
        """How often a process was started again after one had failed."""
        self.latencies = Latencies()
        self.refused = 0
        """Calls that were refused at once: the plugin is quarantined, stopped or overloaded."""
        self.failures = 0
        """Calls that ended with an error, from the plugin or for want of an answer."""
        self.cancelled = 0
        """Calls that their callers cancelled."""
        self.last_error: LastError | None = None
        """The last failure of a call or a process."""
        self._failed = False

    @property
    def calls(self) -> int:
        """Calls that have ended, also with a failure; not those that their callers cancelled."""
        return self.latencies.count + self.refused

    def continue_from(self, before: PluginMetrics) -> None:
        """Go on from the metrics of the same plugin before it was stopped and added again. Its uptime begins
        anew."""
        self.latencies.add(before.latencies)
        self.restarts += before.restarts
        self.refused += before.refused
        self.failures += before.failures
        self.cancelled += before.cancelled
        self.last_error = self.last_error or before.last_error
        self._failed = self._failed or before._failed

    def on_call_failed(self, error: PluginError, now: float) -> None:
        """A call has failed."""
        self.failures += 1
        if len(self.latencies.recent) >= BATCH:
            self.latencies.count_recent()
        self.last_error = LastError(error.code, error.message, now)

    def on_started(self, now: float, *, one_shot: bool) -> None:
        """A process was started."""
        if self._failed and not one_shot:
            self.restarts += 1
        self._failed = False
        self.started_at = now

    def on_exited(self, failure: PluginError | None, now: float, *, running: bool) -> None:
        """A process has ended, or could not be started; `failure` is None if that was expected, and `running`
        whether another process runs."""
        if not running:
            self.started_at = None
        if failure is not None:
            self._failed = True
            self.last_error = LastError(failure.code, failure.message, now)

    def snapshot(self, now: float) -> dict[str, Any]:
        """All of it as a document that can be encoded as JSON; times are in seconds, ages before `now`."""
        error = self.last_error
        return {
            "uptime": None if self.started_at is None else max(now - self.started_at, 0.0),
            "restarts": self.restarts,
            "calls": self.calls,
            "failures": self.failures,
            "cancelled": self.cancelled,
            "p50": self.latencies.quantile(0.5),
            "p99": self.latencies.quantile(0.99),
            "last_error": None
            if error is None
            else {"code": error.code, "message": error.message, "age": max(now - error.at, 0.0)},
        }
