"""What calls add up to: by day, project, model and session at once, and from that by each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import date, timedelta
from math import fsum
from operator import add
from typing import Any

from session_reader.call import Call
from session_reader.prices import Prices

MOST_CALLS = 20_000
"""Calls that are kept one by one, the newest; older ones are in the sums only."""
MOST_CELLS = 200_000
"""Above that, new sessions are counted without their names."""
MOST_SESSIONS = 500
"""Sessions that are published one by one, the newest."""
COUNTS = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")

Key = tuple[str, str, str, str, str, str]
"""Day, project, its path, model, provider, session."""


class Cell:
    """A sum of calls to one model."""

    __slots__ = ("calls", "first", "last", "tokens")

    def __init__(self) -> None:
        self.tokens = [0, 0, 0, 0, 0]
        self.calls = 0
        self.first = "9"
        self.last = ""

    def span(self, first: str, last: str) -> None:
        self.first = min(self.first, first)
        self.last = max(self.last, last)


class Totals:
    """Each call counts once, whatever number of lines tells of it, with the most that one of them says."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._cells: dict[Key, Cell] = {}
        self._calls: dict[int, Call] = {}
        """Those that are kept, by their key's hash."""
        self._closed: set[int] = set()
        """The keys of the others."""

    @property
    def is_empty(self) -> bool:
        return not self._cells

    def add(self, key: object, call: Call) -> bool:
        """Whether it has changed anything."""
        number = hash(key)
        if number in self._closed:
            return False
        before = self._calls.get(number)
        if before is not None:
            return self._grow(before, call)
        self._calls[number] = call
        if len(self._calls) >= 2 * MOST_CALLS:
            self._close_oldest()
        cell = self._cell(call)
        cell.calls += 1
        cell.span(call.timestamp, call.timestamp)
        cell.tokens = [*map(add, cell.tokens, call.tokens())]
        return True

    def _grow(self, before: Call, call: Call) -> bool:
        new, old = call.tokens(), before.tokens()
        if new == old:  # as nearly always
            return False
        more = [max(0, one - other) for one, other in zip(new, old, strict=True)]
        if not any(more):
            return False
        for name, count in zip(COUNTS, more, strict=True):
            setattr(before, name, getattr(before, name) + count)
        cell = self._cell(before)
        cell.tokens = [*map(add, cell.tokens, more)]
        return True

    def _cell(self, call: Call) -> Cell:
        key = call.timestamp[:10], call.project, call.project_path, call.model, call.provider, call.session_id
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= MOST_CELLS:
                key = (*key[:5], "")
            cell = self._cells.setdefault(key, Cell())
        return cell

    def _close_oldest(self) -> None:
        oldest = sorted(self._calls, key=lambda number: self._calls[number].timestamp)[:-MOST_CALLS]
        self._closed.update(oldest)
        for number in oldest:
            del self._calls[number]

    # As it is published

    def calls(self) -> list[Call]:
        """The newest, the oldest of them first."""
        newest = sorted(self._calls.values(), key=lambda call: (call.timestamp, call.id))[-MOST_CALLS:]
        for call in newest:
            call.cost_usd = self._prices.cost(call.model, call.tokens())
        return newest

    def aggregates(self) -> dict[str, Any]:
        """Usage data without calls, in the contract's shapes."""
        cells = [
            (key, cell, self._prices.cost(key[3], cell.tokens))
            for key, cell in sorted(self._cells.items(), key=_key)
        ]
        sessions = _by(cells, lambda key: (key[4], key[1], key[5]) if key[5] else None)
        newest = sorted(sessions.items(), key=lambda item: (item[1].last, item[0]), reverse=True)
        return {
            "daily": [[day, total.told()] for day, total in _by(cells, lambda key: key[0]).items()],
            "weekly": [[week, total.told()] for week, total in _by(cells, lambda key: _week(key[0])).items()],
            "projects": [
                {"name": name, "path": path, "bucket": total.told(), "repo": None}
                for (name, path), total in _largest(_by(cells, lambda key: key[1:3]))
            ],
            "models": [
                {"model": name, "bucket": total.told()}
                for name, total in _largest(_by(cells, lambda key: key[3]))
            ],
            "sessions": [
                {
                    "provider": provider,
                    "project": project,
                    "session_id": session,
                    "first_timestamp": total.first,
                    "last_timestamp": total.last,
                    "bucket": total.told(),
                }
                for (provider, project, session), total in newest[:MOST_SESSIONS]
            ],
            "grand_total": _by(cells, lambda key: "").get("", Sum()).told(),
            "model_project_counts": _models_by_project(cells),
        }


Cells = list[tuple[Key, Cell, float | None]]
"""With what each costs, in the order of their days."""


def _key(item: tuple[Key, Cell]) -> Key:
    return item[0]


def _by(cells: Cells, part: Callable[[Key], Any]) -> dict[Any, Sum]:
    """Sums of the cells that have a part of their key in common; without those that have none."""
    sums: dict[Any, Sum] = {}
    for key, cell, cost in cells:
        if (name := part(key)) is not None:
            if name not in sums:
                sums[name] = Sum()
            sums[name].add(key, cell, cost)
    return sums


def _models_by_project(cells: Cells) -> list[Any]:
    counts: dict[str, dict[str, int]] = {}
    for key, cell, _ in cells:
        projects = counts.setdefault(key[3], {})
        projects[key[1]] = projects.get(key[1], 0) + cell.calls
    return [
        [model, [[*item] for item in sorted(projects.items(), key=lambda item: (-item[1], item[0]))]]
        for model, projects in sorted(counts.items())
    ]


class Sum(Cell):
    """A sum of cells, what they cost, and how many sessions and projects they are of."""

    __slots__ = ("costs", "projects", "sessions", "unpriced")

    def __init__(self) -> None:
        super().__init__()
        self.costs: list[float] = []
        self.unpriced = 0
        self.sessions: set[str] = set()
        self.projects: set[str] = set()

    def add(self, key: Key, cell: Cell, cost: float | None) -> None:
        self.tokens = [*map(add, self.tokens, cell.tokens)]
        self.calls += cell.calls
        if cost is None:
            self.unpriced += cell.calls
        else:
            self.costs.append(cost)
        self.span(cell.first, cell.last)
        self.sessions.add(key[5])
        self.projects.add(key[2])

    def told(self) -> dict[str, Any]:
        """The contract's TokenBucket. `unpriced_calls` is ours: a cost may be of some of the calls only."""
        return {
            **dict(zip(COUNTS, self.tokens, strict=True)),
            "session_count": len(self.sessions),
            "project_count": len(self.projects),
            "call_count": self.calls,
            "cost_usd": fsum(self.costs) if self.costs else None,  # exact, in whatever order they came
            "unpriced_calls": self.unpriced,
        }


@functools.cache
def _week(day: str) -> str:
    """Its Monday."""
    begun = date.fromisoformat(day)
    return (begun - timedelta(begun.weekday())).isoformat()


def _largest(sums: dict[Any, Sum]) -> list[tuple[Any, Sum]]:
    return sorted(sums.items(), key=lambda item: (-sum(item[1].tokens), item[0]))
