"""What was published, as rows to show. A publisher may write anything: what does not fit is not taken."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(max_length=4096)]
MOST_ROWS = 20_000
MOST_CELLS = 50_000


class Bucket(msgspec.Struct, gc=False):
    """The contract's TokenBucket, and session-reader's count of calls that the cost leaves out."""

    input_tokens: Count = 0
    cache_creation_tokens: Count = 0
    cache_read_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0
    session_count: Count = 0
    call_count: Count = 0
    cost_usd: float | None = None
    unpriced_calls: Count = 0

    @property
    def tokens(self) -> int:
        return (
            self.input_tokens
            + self.cache_creation_tokens
            + self.cache_read_tokens
            + self.output_tokens
            + self.reasoning_tokens
        )

    def take(self, other: Bucket) -> None:
        self.input_tokens += other.input_tokens
        self.cache_creation_tokens += other.cache_creation_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.output_tokens += other.output_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.call_count += other.call_count
        self.unpriced_calls += other.unpriced_calls
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd


class Row(msgspec.Struct):
    """A line of a table: a day, a project or a model."""

    name: Name
    bucket: Bucket
    note: str = ""


class Project(msgspec.Struct):
    name: Name
    bucket: Bucket
    path: Name = ""


class Model(msgspec.Struct):
    model: Name
    bucket: Bucket


class Aggregates(msgspec.Struct):
    daily: list[tuple[Name, Bucket]]
    projects: list[Project]
    models: list[Model]
    grand_total: Bucket


class Call(msgspec.Struct, gc=False):
    """As much of a ProviderCall as is shown."""

    model: Name
    project: Name
    timestamp: Name
    input_tokens: Count = 0
    cache_creation_tokens: Count = 0
    cache_read_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0
    cost_usd: float | None = None


class Usage:
    """The tables, and the calls folded by day, project and model."""

    def __init__(self, days: list[Row], projects: list[Row], models: list[Row], total: Bucket) -> None:
        self.tables = {"days": days, "projects": projects, "models": models}
        self.total = total
        self.cells: dict[tuple[str, str, str], Bucket] = {}

    def parts(self, table: str, name: str) -> dict[str, list[Row]]:
        """What a row of a table is made of, by the other two tables, the largest first."""
        where = [*self.tables].index(table)
        found: dict[str, dict[str, Bucket]] = {other: {} for other in self.tables if other != table}
        for key, cell in self.cells.items():
            if key[where] == name:
                for place, other in enumerate(self.tables):
                    if other != table:
                        found[other].setdefault(key[place], Bucket()).take(cell)
        return {
            other: sorted(
                (Row(part, bucket) for part, bucket in parts.items()),
                key=lambda row: (-row.bucket.tokens, row.name),
            )
            for other, parts in found.items()
        }


def read(data: dict[str, Any]) -> Usage:
    """The aggregates of a first chunk; ValueError when they are none."""
    told = msgspec.convert({key: data.get(key) for key in Aggregates.__struct_fields__}, Aggregates)
    days = [Row(day, bucket) for day, bucket in told.daily[-MOST_ROWS:]][::-1]
    projects = [Row(each.name, each.bucket, each.path) for each in told.projects[:MOST_ROWS]]
    models = [Row(each.model, each.bucket) for each in told.models[:MOST_ROWS]]
    return Usage(days, projects, models, told.grand_total)


def fold(cells: dict[tuple[str, str, str], Bucket], calls: list[Any]) -> None:
    """Add calls to what they are part of; those that are none are left out."""
    for told in calls:
        try:
            call = msgspec.convert(told, Call)
        except msgspec.ValidationError:
            continue
        key = call.timestamp[:10], call.project, call.model
        cell = cells.get(key)
        if cell is None:
            if len(cells) >= MOST_CELLS:
                continue
            cell = cells[key] = Bucket()
        cell.take(
            Bucket(
                call.input_tokens,
                call.cache_creation_tokens,
                call.cache_read_tokens,
                call.output_tokens,
                call.reasoning_tokens,
                0,
                1,
                call.cost_usd,
                call.cost_usd is None,
            )
        )
