"""Filters: lists with many optional filters, built from an allow-list of columns.

The words of a request never become SQL: a filter names a column of the list, and its value is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plughost.errors import InvalidSpec
from plughost.vai.database.statements import Query, Statement, statement


class Filters:
    """A list that can be filtered: `equal`, `at_least` and `below` map the names of filters to columns."""

    def __init__(
        self,
        select: str,
        *,
        equal: Mapping[str, str],
        at_least: Mapping[str, str],
        below: Mapping[str, str],
        needs: Mapping[str, str],
        order: str,
    ) -> None:
        self._select = select
        self._conditions = {
            name: f"{column} {operator} :{name}"
            for columns, operator in ((equal, "="), (at_least, ">="), (below, "<"))
            for name, column in columns.items()
        }
        self._needs = needs
        """Filters that are only allowed together with another one, whose index serves both."""
        self._order = order
        self._statement = lru_cache(maxsize=256)(self._build)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all filters."""
        return tuple(self._conditions)

    def query(self, filters: Mapping[str, Any], limit: int) -> Query:
        """The query for these filters; one that is None does not filter. InvalidSpec for an unknown one."""
        given = {name: value for name, value in filters.items() if value is not None}
        if unknown := [name for name in given if name not in self._conditions]:
            raise InvalidSpec(f"there is no filter {unknown[0]}; there are {', '.join(self._conditions)}")
        for name, other in self._needs.items():
            if name in given and other not in given:
                raise InvalidSpec(f"the filter {name} works only together with {other}")
        return self._statement(tuple(sorted(given)))(**given, limit=limit)

    def _build(self, names: tuple[str, ...]) -> Statement:
        where = f" WHERE {' AND '.join(self._conditions[name] for name in names)}" if names else ""
        source = f"{self._select}{where} ORDER BY {self._order} LIMIT :limit"
        return statement(f"list by {', '.join(names) or 'nothing'}", {None: source})
