"""What tokens cost."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from operator import mul
from pathlib import Path

USUAL = Path(__file__).parents[1] / "prices.toml"
MILLION = 1_000_000

Rates = tuple[float, ...]
"""Dollars a token, by kind."""


class Prices:
    """A model that no name in the table fits has no price, which is not the price 0."""

    def __init__(self, as_of: str, table: dict[str, Rates]) -> None:
        self.as_of = as_of
        self._table = table
        self._known: dict[str, Rates | None] = {}

    def cost(self, model: str, tokens: Sequence[int]) -> float | None:
        """Of tokens by kind: input, written to the cache, read from it, output, reasoning."""
        if model not in self._known:
            self._known[model] = self._look_up(model)
        rates = self._known[model]
        return None if rates is None else sum(map(mul, tokens, rates))

    def _look_up(self, model: str) -> Rates | None:
        fitting = [name for name in self._table if model.startswith(name)]
        return self._table[max(fitting, key=len)] if fitting else None


def load(path: str | os.PathLike[str] | None = None) -> Prices:
    """The table beside the plugin, or the one that the operator names; ValueError if it is none."""
    source = Path(path or os.environ.get("SESSION_READER_PRICES") or USUAL)
    try:
        told = tomllib.loads(source.read_text())
        table = {name: _rates(row) for name, row in told["prices"].items()}
        return Prices(str(told["as_of"]), table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{source} is no table of prices: {type(error).__name__}: {error}") from None


def _rates(row: dict[str, float]) -> Rates:
    fresh, output = float(row["input"]), float(row["output"])
    cached = float(row.get("cache_write", fresh)), float(row.get("cache_read", fresh))
    rates = fresh, *cached, output, output
    if not all(0 <= rate < MILLION for rate in rates):
        raise ValueError(f"not a price: {row}")
    return tuple(rate / MILLION for rate in rates)
