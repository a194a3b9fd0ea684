"""Retry policy: whether a failed attempt is retried, and after which delay (exponential backoff with
jitter)."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from plughost._util.seconds import check_seconds

SAFE = frozenset({"read_only", "idempotent_write"})
"""Effect classes of tools that may be executed twice without harm."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with jitter, in seconds."""

    attempts: int = 8
    first: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.2
    """The share of a delay that is random."""

    def __post_init__(self) -> None:
        check_seconds("first", self.first)
        check_seconds("longest", self.longest)

    def after(self, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        """The delay after that many attempts; None when there are no more."""
        if attempt >= self.attempts:
            return None
        delay = min(self.first * self.factor ** (attempt - 1), self.longest)
        return delay * (1 - self.jitter / 2 + self.jitter * chance())


HOOK_DELIVERIES = Backoff()
"""The default schedule for deliveries of events to hooks: eight attempts within some ten minutes."""
TOOL_TRIES = Backoff(attempts=3, first=0.05, factor=4.0, longest=1.0)
"""The schedule for tools: short, because retries must fit into the deadline of the call."""


def may_retry(effect_class: str | None) -> bool:
    """Whether a tool of this effect class may be retried without asking."""
    return effect_class in SAFE
