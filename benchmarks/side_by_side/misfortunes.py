"""What a caller notices when a plugin misbehaves, and what is left when a host is killed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from benchmarks.effort import Effort
from benchmarks.side_by_side import orphans, trouble
from benchmarks.side_by_side.entrants import Entrant
from benchmarks.side_by_side.progress import progress

MISFORTUNES = (*trouble.TROUBLES, *orphans.CASES)


@dataclass
class Outcome:
    """What came of a misfortune, time after time."""

    kinds: list[str] = field(default_factory=list)
    """answer, error or hangs; of a killed host: gone or left"""
    said: str = ""
    seconds: list[float] = field(default_factory=list)

    def add(self, kind: str, said: str, seconds: float) -> None:
        self.kinds.append(kind)
        self.said = said or self.said
        self.seconds.append(seconds)


Outcomes = dict[str, dict[str, Outcome]]
"""By entrant, by misfortune."""


def compare(everyone: Sequence[Entrant], effort: Effort) -> Outcomes:
    sufferers = [entrant for entrant in everyone if entrant.misbehaves]
    table: Outcomes = {one.name: {what: Outcome() for what in MISFORTUNES} for one in sufferers}
    for number in range(1, effort.probes + 1):
        progress(f"misfortunes: round {number} of {effort.probes}")
        with ThreadPoolExecutor(effort.sufferers) as pool:
            for entrant, came in zip(sufferers, pool.map(_suffer, sufferers), strict=True):
                for what, kind, said, seconds in came:
                    table[entrant.name][what].add(kind, said, seconds)
    return table


def _suffer(entrant: Entrant) -> list[trouble.Came]:
    progress(f"  {entrant.name}")
    return [*trouble.make(entrant), *orphans.make(entrant)]
