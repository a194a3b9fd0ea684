"""The numbers for people: the middle of all rounds, and in brackets how far they were apart."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from benchmarks.goals import Verdict
from benchmarks.sheet import Sheet
from benchmarks.stats import Spread

COLOURS = {"PASS": "green", "MISS": "bold red", "-": "dim"}


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def told(spread: Spread) -> str:
    if spread.least == spread.most:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.least)}..{number(spread.most)})"


def table_of(sheet: Sheet) -> Table:
    table = Table("", title=sheet.name, caption=sheet.note, title_justify="left", caption_justify="left")
    for metric, unit in sheet.units.items():
        table.add_column(f"{metric} {unit}".strip(), justify="right")
    if sheet.base is not None:
        table.add_column("×", justify="right")
    first = next(iter(sheet.units))
    for contender in sheet.contenders:
        said = sheet.rounds[contender]
        row = [told(Spread.of(said[metric])) if said[metric] else "" for metric in sheet.units]
        if sheet.base is not None:
            row.append(told(sheet.ratio(first, contender, sheet.base)))
        table.add_row(contender, *row)
    return table


def table_of_goals(verdicts: Iterable[Verdict]) -> Table:
    table = Table("goal", title="goals", title_justify="left")
    for heading in ("wanted", "measured", ""):
        table.add_column(heading, justify="right")
    for verdict in verdicts:
        measured = told(verdict.spread) if verdict.spread is not None else "not measured"
        colour = COLOURS[verdict.verdict]
        table.add_row(verdict.goal, verdict.wanted, measured, f"[{colour}]{verdict.verdict}[/]")
    return table
