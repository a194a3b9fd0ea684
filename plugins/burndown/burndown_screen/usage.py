"""What was published, as rows to show. A publisher may write anything: what does not fit is not taken."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]
Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
"""So neither infinite nor none at all (NaN), which JSON cannot say and no sum gets rid of."""
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
    cost_usd: Dollars | None = None
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


class Project(msgspec.Struct, gc=False):
    name: Name
    bucket: Bucket
    path: Name = ""


class Model(msgspec.Struct, gc=False):
    model: Name
    bucket: Bucket


class Call(msgspec.Struct, gc=False):
    """As much of a ProviderCall as is shown."""

    model: Name
    project: Name
    project_path: Name
    timestamp: Name
    input_tokens: Count = 0
    cache_creation_tokens: Count = 0
    cache_read_tokens: Count = 0
    output_tokens: Count = 0
    reasoning_tokens: Count = 0
    cost_usd: Dollars | None = None


class UsageData(msgspec.Struct, gc=False):
    daily: list[tuple[Name, Bucket]] = []
    projects: list[Project] = []
    models: list[Model] = []
    grand_total: Bucket = msgspec.field(default_factory=Bucket)
    calls: list[Call] = []


class Event(msgspec.Struct, gc=False):
    """A chunk, as far as it is of interest here."""

    data: UsageData


events = msgspec.msgpack.Decoder(Event)

Cells = dict[tuple[str, ...], Bucket]
"""By day, project, its path, and model."""
PLACES = {"days": slice(0, 1), "projects": slice(1, 3), "models": slice(3, 4)}
"""Where the rows of a table are in the keys of cells. Projects of one name are told apart by their paths."""


class Usage:
    """The tables, and the calls folded by day, project and model."""

    def __init__(self, days: list[Row], projects: list[Row], models: list[Row], total: Bucket) -> None:
        self.tables = {"days": days, "projects": projects, "models": models}
        self.total = total
        self.cells: Cells = {}

    @property
    def folded(self) -> int:
        """How many calls are in the cells: the newest ones, where there are too many to publish them all."""
        return sum(cell.call_count for cell in self.cells.values())

    def parts(self, table: str, row: Row) -> dict[str, list[Row]]:
        """What a row of a table is made of, by the other two tables, the largest first."""
        where = PLACES[table]
        wanted = (row.name, row.note) if table == "projects" else (row.name,)
        others = {other: place for other, place in PLACES.items() if other != table}
        found: dict[str, dict[tuple[str, ...], Bucket]] = {other: {} for other in others}
        for key, cell in self.cells.items():
            if key[where] == wanted:
                for other, place in others.items():
                    found[other].setdefault(key[place], Bucket()).take(cell)
        return {
            other: sorted(
                (Row(name, bucket, *note) for (name, *note), bucket in parts.items()),
                key=lambda row: (-row.bucket.tokens, row.name, row.note),
            )
            for other, parts in found.items()
        }


def read(told: UsageData) -> Usage:
    """The tables of a first chunk."""
    days = [Row(day, bucket) for day, bucket in told.daily[-MOST_ROWS:]][::-1]
    projects = [Row(each.name, each.bucket, each.path) for each in told.projects[:MOST_ROWS]]
    models = [Row(each.model, each.bucket) for each in told.models[:MOST_ROWS]]
    return Usage(days, projects, models, told.grand_total)


def fold(cells: Cells, calls: list[Call]) -> None:
    """Add calls to the cells that they are part of. There are many: a frame may be waiting for this."""
    for call in calls:
        key = call.timestamp[:10], call.project, call.project_path, call.model
        cell = cells.get(key)
        if cell is None:
            if len(cells) >= MOST_CELLS:
                continue
            cell = cells[key] = Bucket()
        cell.call_count += 1
        cell.input_tokens += call.input_tokens
        cell.cache_creation_tokens += call.cache_creation_tokens
        cell.cache_read_tokens += call.cache_read_tokens
        cell.output_tokens += call.output_tokens
        cell.reasoning_tokens += call.reasoning_tokens
        if call.cost_usd is None:
            cell.unpriced_calls += 1
        else:
            cell.cost_usd = (cell.cost_usd or 0.0) + call.cost_usd
