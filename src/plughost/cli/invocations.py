"""`plughost invocations`: what was run, for whom, and how it ended."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plughost.base.errors import InvalidSpec
from plughost.cli import output
from plughost.cli.invoke import state_option, usual_state

if TYPE_CHECKING:
    from plughost.invocations.record_book import RecordBook


@click.group()
def invocations() -> None:
    """Records of invocations."""


@invocations.command("ls")
@state_option
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True)
@click.option("--status", type=click.Choice(["succeeded", "failed", "cancelled", "retryable_failure"]))
@click.option("--export", "export_id", metavar="ID", help="Of this export only.")
@click.option("--json", "as_json", is_flag=True)
def list_(state: Path | None, limit: int, status: str | None, export_id: str | None, as_json: bool) -> None:
    """The newest first."""
    with _book(state) as book:
        rows = book.latest(limit, status=status, export=export_id)
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
@click.option("--json", "as_json", is_flag=True)
@click.argument("invocation_id")
def show(state: Path | None, invocation_id: str, as_json: bool) -> None:
    """Everything that is known of one: its grants, what held it, its events."""
    with _book(state) as book:
        row = book.one(invocation_id)
    if row is None:
        raise InvalidSpec(f"there is no invocation {invocation_id}", hint="plughost invocations ls")
    if as_json:
        output.answer(row)
        return
    events = row.pop("events")
    for name, value in row.items():
        if value not in (None, [], ""):
            output.print_line(f"{name}: {_said(name, value)}")
    for event in events:
        output.print_line(f"{_when(event['at'])}  {event['event']}")


def _said(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return _when(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _book(state: Path | None) -> RecordBook:
    from plughost.invocations.journal import settle
    from plughost.invocations.record_book import RecordBook

    folder = str(state or usual_state())
    settle(folder)
    return RecordBook(folder)
