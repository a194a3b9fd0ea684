"""Filters: lists with many optional filters, built from an allow-list of columns.

The words of a request never become SQL: a filter names a column of the list, and its value is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from plughost.errors import InvalidSpec
from plughost.vai.database.statements import Query, Row, Statement, statement


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
        newest_first: tuple[str, ...],
    ) -> None:
        self._select = select
        self._conditions = {
            name: f"{column} {operator} :{name}"
            for columns, operator in ((equal, "="), (at_least, ">="), (below, "<"))
            for name, column in columns.items()
        }
        self._needs = needs
        """Filters that are only allowed together with another one, whose index serves both."""
        self._position = newest_first
        """The columns that order the list, all descending; their values in a row are its position."""
        self._statement = lru_cache(maxsize=256)(self._build)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all filters."""
        return tuple(self._conditions)

    def position(self, row: Row) -> list[Any]:
        """The position of a row in the list, from which `query` continues."""
        return [row[column] for column in self._position]

    def query(self, filters: Mapping[str, Any], limit: int, after: Sequence[Any] | None = None) -> Query:
        """The query for these filters; one that is None does not filter. InvalidSpec for an unknown one.

        `after` is the position of the last row before this page.
        """
        given = {name: value for name, value in filters.items() if value is not None}
        if unknown := [name for name in given if name not in self._conditions]:
            raise InvalidSpec(f"there is no filter {unknown[0]}; there are {', '.join(self._conditions)}")
        for name, other in self._needs.items():
            if name in given and other not in given:
                raise InvalidSpec(f"the filter {name} works only together with {other}")
        columns = self._position if after is not None else ()
        position = {f"after_{column}": value for column, value in zip(columns, after or (), strict=True)}
        return self._statement(tuple(sorted(given)), after is not None)(**given, **position, limit=limit)

    def _build(self, names: tuple[str, ...], is_continued: bool) -> Statement:
        conditions = [self._conditions[name] for name in names]
        if is_continued:
            values = ", ".join(f":after_{column}" for column in self._position)
            conditions.append(f"({', '.join(self._position)}) < ({values})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = ", ".join(f"{column} DESC" for column in self._position)
        source = f"{self._select}{where} ORDER BY {order} LIMIT :limit"
        return statement(f"list by {', '.join(names) or 'nothing'}", {None: source})
