"""Rate limits: a token bucket for each caller of the gateway."""

from __future__ import annotations

from plughost.clock import Clock
from plughost.engine.rate_limit import TokenBucket
from plughost.gateway.problems import Problem

MAX_CALLERS = 10_000
"""Callers of which a bucket is kept; of more, all are forgotten and start with a full one."""


class RateLimits:
    """Limits the requests of each caller per second."""

    def __init__(self, clock: Clock, requests_per_second: int) -> None:
        self._clock = clock
        self._size = requests_per_second
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, caller: str) -> None:
        """Counts a request. `too_many_requests` when the caller has sent too many."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= MAX_CALLERS:
                self._buckets.clear()
            bucket = self._buckets[caller] = TokenBucket(self._size, self._clock.time)
        if not bucket.take():
            raise Problem(
                "too_many_requests",
                f"at most {self._size} requests a second are allowed",
                headers={"Retry-After": "1"},
            )
