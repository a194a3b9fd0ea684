"""Pages of lists: `limit`, `cursor` and filters of a request, and the answer with the next cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from plughost.gateway.api_request import ApiRequest
from plughost.gateway.problems import Problem
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, newest first."""

    items: list[T]
    next_cursor: str | None
    """Give it as `cursor` for the next part; null after the last one."""


def check_filters(allowed: Sequence[str], query: Mapping[str, Any]) -> None:
    """Refuses query parameters that the list does not have."""
    known = {"limit", "cursor", *allowed}
    if unknown := sorted(query.keys() - known):
        raise Problem(
            "unknown_filter", f"there is no filter {unknown[0][:100]}; there are {', '.join(allowed)}"
        )


async def filtered_page(
    request: ApiRequest,
    lists: Filters,
    filters: Mapping[str, Any],
    document: Callable[[Row], T],
    *,
    limit: int | None,
    cursor: str | None,
) -> Page[T]:
    """One page of a filtered list. Its cursors belong to the caller, the route and the filters."""
    size = request.limit(limit)
    bound: dict[str, Any] = {"caller": caller(request), "route": request.route, "filters": filters}
    after = None if cursor is None else request.services.cursors.decode(cursor, **bound)
    rows = (await request.services.database.read(lists.query(filters, size + 1, after))).rows
    more = len(rows) > size
    next_cursor = request.services.cursors.encode(lists.position(rows[size - 1]), **bound) if more else None
    return Page([document(row) for row in rows[:size]], next_cursor)


def caller(request: ApiRequest) -> str:
    """The caller to whom cursors belong."""
    return f"{request.principal.kind}:{request.principal.id}"
