"""Everything that one run has found."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.side_by_side.misfortunes import Outcomes


@dataclass
class Results:
    command: str
    machine: dict[str, str | int | float]
    effort: Effort
    minutes: float
    versions: dict[str, dict[str, str]]
    """Of those who took part, what was measured."""
    absent: dict[str, str]
    """Why the others did not."""
    sheets: dict[str, Sheet]
    outcomes: Outcomes
