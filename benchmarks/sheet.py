"""One measure's numbers: for every contender and every round, a value of each metric."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.stats import Spread


@dataclass
class Sheet:
    name: str
    note: str
    """Under which conditions."""
    units: dict[str, str]
    """The unit of each metric; the first metric is the one that ratios are told of."""
    contenders: Iterable[str]
    base: str | None = None
    """Who counts as 1 ×."""
    rounds: dict[str, dict[str, list[float]]] = field(init=False)
    """By contender and metric, a value per round."""

    def __post_init__(self) -> None:
        self.contenders = list(self.contenders)
        self.rounds = {contender: {metric: [] for metric in self.units} for contender in self.contenders}

    def add(self, contender: str, **values: float) -> None:
        """What a round said about a contender."""
        for metric, value in values.items():
            self.rounds[contender][metric].append(value)

    def spread(self, contender: str, metric: str) -> Spread:
        return Spread.of(self.rounds[contender][metric])

    def ratio(self, metric: str, of: str, to: str) -> Spread:
        """How many times `to` the value of `of` is, each round by itself."""
        return Spread.of([one / other for one, other in self._pairs(metric, of, to)])

    def difference(self, metric: str, of: str, to: str) -> Spread:
        """How much more the value of `of` is, each round by itself."""
        return Spread.of([one - other for one, other in self._pairs(metric, of, to)])

    def _pairs(self, metric: str, one: str, other: str) -> Iterable[tuple[float, float]]:
        return zip(self.rounds[one][metric], self.rounds[other][metric], strict=True)
