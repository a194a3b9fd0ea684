"""`plughost invocations`: lists, shows and prunes the records of invocations."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plughost.cli.commands.vai.invoke import default_state_folder, state_option
from plughost.cli.options.groups import Group
from plughost.cli.ui import output
from plughost.errors import InvalidSpec

if TYPE_CHECKING:
    from plughost.vai.database.database import Database
    from plughost.vai.records.records import Records
    from plughost.vai.records.retention import Pruned, PrunedState, Retention

T = TypeVar("T")

COUNT = click.IntRange(0, (1 << 63) - 1)
"""A number of rows: the largest one is the largest that a database can store."""


@click.group(cls=Group)
def invocations() -> None:
    """List, show and remove records of invocations."""


@invocations.command("ls")
@state_option
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Maximum number of records.",
)
@click.option(
    "--status",
    type=click.Choice(["succeeded", "failed", "cancelled", "retryable_failure"]),
    help="Only invocations with this status.",
)
@click.option("--export", "export_id", metavar="ID", help="Only invocations of this export.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(state: Path | None, limit: int, status: str | None, export_id: str | None, as_json: bool) -> None:
    """List invocations, the newest first."""
    rows = _with_records(state, lambda records: records.latest(limit, status=status, export=export_id))
    if as_json:
        output.answer(rows)
        return
    for row in rows:
        took = "" if row["ended_at"] is None else f"{(row['ended_at'] - row['started_at']) * 1000:.0f} ms"
        how = row["status"] or "running"
        words = f"{how} ({row['reason']})" if row["reason"] else how
        what = f"{row['package_id']}@{row['package_version']} {row['export_id']}"
        output.print_line(f"{_when(row['started_at'])}  {row['invocation_id']}  {what}  {words}  {took}")


@invocations.command()
@state_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("invocation_id")
def show(state: Path | None, invocation_id: str, as_json: bool) -> None:
    """Show one invocation: its grants, sandbox, events and outcome."""
    row = _with_records(state, lambda records: records.get(invocation_id))
    if row is None:
        raise InvalidSpec(f"there is no invocation {invocation_id}", hint="plughost invocations ls")
    if as_json:
        output.answer(row)
        return
    events = row.pop("events")
    for name, value in row.items():
        if value not in (None, [], ""):
            output.print_line(f"{name}: {_format_value(name, value)}")
    for event in events:
        output.print_line(f"{_when(event['at'])}  {event['event']}")


def _seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text or "0s")
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration: write a number and s, m, h or d, such as 30d")
    return None if text is None else float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


def _bytes(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)", text or "0", re.IGNORECASE)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size: write bytes, or a number with K, M, G or T")
    return None if text is None else int(match[1]) << " KMGT".index(match[2].upper() or " ") * 10


@invocations.command()
@state_option
@click.option(
    "--older-than",
    callback=_seconds,
    metavar="AGE",
    help="Remove invocations, events and deliveries older than this, such as 30d or 12h.",
)
@click.option(
    "--keep-bytes",
    callback=_bytes,
    metavar="SIZE",
    help="Remove the oldest until the records fit into this size, such as 1G.",
)
@click.option(
    "--keep-count",
    type=COUNT,
    metavar="N",
    help="Remove the oldest until this many invocations are left.",
)
@click.option(
    "--keep-events",
    type=COUNT,
    metavar="N",
    help="Remove the oldest until this many events are left.",
)
@click.option(
    "--keep-deliveries",
    type=COUNT,
    metavar="N",
    help="Remove the oldest until this many settled deliveries are left.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune(
    state: Path | None,
    older_than: float | None,
    keep_bytes: int | None,
    keep_count: int | None,
    keep_events: int | None,
    keep_deliveries: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove old records, events and deliveries.

    Running invocations are kept, and so are events that wait for their delivery and deliveries that are not
    settled. Default: --older-than 30d --keep-bytes 1G.

    \b
    Examples:
      plughost invocations prune --older-than 7d --dry-run
      plughost invocations prune --keep-count 100000 --keep-deliveries 100000
    """
    from plughost.vai.records.retention import Retention

    limits = (older_than, keep_bytes, keep_count, keep_events, keep_deliveries)
    retention = Retention()
    if any(limit is not None for limit in limits):
        retention = Retention(
            age=older_than,
            size=keep_bytes,
            count=keep_count,
            event_age=older_than,
            event_count=keep_events,
            delivery_age=older_than,
            delivery_count=keep_deliveries,
        )
    total, others, left = _with_database(state, lambda database: _prune(database, retention, dry_run))
    if as_json:
        report = {"invocations": total.invocations, "bytes": total.bytes, "left_bytes": left}
        report |= {"events": others.events, "deliveries": others.deliveries}
        output.answer({**report, "dry_run": dry_run})
        return
    verb = "would remove" if dry_run else "removed"
    output.print_line(
        f"{verb} {total.invocations} invocations, {total.bytes} bytes; {left} bytes are left",
        f"{verb} {others.events} events and {others.deliveries} deliveries",
    )


def _format_value(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return _when(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_records(state: Path | None, use: Callable[[Records], Awaitable[T]]) -> T:
    """Opens the records of a state folder, including what its journals hold, and uses them."""
    from plughost.vai.records.records import Records

    return _with_database(state, lambda database: use(Records(database)))


def _with_database(state: Path | None, use: Callable[[Database], Awaitable[T]]) -> T:
    from plughost.vai.database.open_database import open_database
    from plughost.vai.records.recovery import recover

    async def run() -> T:
        folder = str(state or default_state_folder())
        database = open_database(folder)
        try:
            await recover(folder, database)
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(run())


async def _prune(database: Database, retention: Retention, dry_run: bool) -> tuple[Pruned, PrunedState, int]:
    """Prunes in small batches; with `dry_run`, only counts what would be removed. Returns what was removed,
    and the bytes that are left."""
    from plughost.vai.records.records import Records
    from plughost.vai.records.retention import Pruned, PrunedState
    from plughost.vai.state.retention import StatePruner

    records, pruner, now = Records(database), StatePruner(database, retention), time.time()
    if dry_run:
        would = await records.would_prune(retention, now)
        return would, await pruner.would_prune(now), await records.used()
    total, more = Pruned(), True
    while more:
        pruned = await records.prune(retention, now)
        total = Pruned(total.invocations + pruned.invocations, total.bytes + pruned.bytes)
        more = pruned.more
    others, more = PrunedState(), True
    while more:
        state = await pruner.prune(now)
        others = PrunedState(others.events + state.events, others.deliveries + state.deliveries)
        more = state.more
    return total, others, await records.used()
