"""One measure's numbers: for every contender and every round, a value of each metric."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.stats import Spread


@dataclass
class Sheet:
    name: str
    note: str
    """Under which conditions."""
    units: dict[str, str]
    """The unit of each metric."""
    base: str
    """Who counts as 1 ×."""
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By contender and metric, a value per round."""

    def add(self, contender: str, **values: float) -> None:
        """What a round said about a contender."""
        metrics = self.rounds.setdefault(contender, {metric: [] for metric in self.units})
        for metric, value in values.items():
            metrics[metric].append(value)

    def spread(self, contender: str, metric: str) -> Spread:
        return Spread.of(self.rounds[contender][metric])

    def ratio(self, metric: str, of: str, to: str) -> Spread:
        """How many times `to` the value of `of` is, each round by itself."""
        pairs = zip(self.rounds[of][metric], self.rounds[to][metric], strict=True)
        return Spread.of([one / other for one, other in pairs])

    def difference(self, metric: str, of: str, to: str) -> Spread:
        pairs = zip(self.rounds[of][metric], self.rounds[to][metric], strict=True)
        return Spread.of([one - other for one, other in pairs])
