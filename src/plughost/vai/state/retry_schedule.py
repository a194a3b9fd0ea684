"""Whether a failed try is made again, and when: decisions over values."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

SAFE = frozenset({"read_only", "idempotent_write"})
"""The effects that a second try does not double."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential, with jitter; seconds."""

    attempts: int = 8
    first: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.2
    """The share of a delay that is left to chance."""

    def after(self, attempt: int, chance: Callable[[], float] = random.random) -> float | None:
        """How long to wait after that many tries; None when they were the last."""
        if attempt >= self.attempts:
            return None
        delay = min(self.first * self.factor ** (attempt - 1), self.longest)
        return delay * (1 - self.jitter / 2 + self.jitter * chance())


TOOL_TRIES = Backoff(attempts=3, first=0.05, factor=4.0, longest=1.0)
"""Within the call's own deadline, so short."""


def may_retry(effect_class: str | None) -> bool:
    """Whether a tool whose process ended, or that asked for it, is called again without a word."""
    return effect_class in SAFE
