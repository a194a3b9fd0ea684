"""Numbers out of many numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` of all."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


@dataclass(frozen=True)
class Spread:
    """What the rounds said: the middle, and how far apart they were."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))
