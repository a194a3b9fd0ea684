"""`python -m benchmarks.side_by_side [--quick] [--only NAME...]`"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.contenders.apart import Apart, Failed
from benchmarks.effort import FULL, QUICK, Effort
from benchmarks.machine import machine
from benchmarks.measures import latency, throughput
from benchmarks.paths import PAGE, PICTURE, ROOT, SIDE_BY_SIDE
from benchmarks.roster import YARDSTICK
from benchmarks.side_by_side import misfortunes, opening, page
from benchmarks.side_by_side.entrants import ENTRANTS, OURS, Entrant, Field, muster
from benchmarks.side_by_side.grids import Grid, grids
from benchmarks.side_by_side.progress import progress
from benchmarks.side_by_side.results import Results

PLOTTER = ROOT / ".venv-plot" / "bin" / "python"
NAMES = [entrant.name for entrant in ENTRANTS]
T = TypeVar("T")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side")
    parser.add_argument("--quick", action="store_true", help="two minutes instead of ten")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME",
                        help=f"with the yardstick and ours; the page stays: {', '.join(NAMES)}")  # fmt: skip
    return parser.parse_args()


def without_those_who_fail(field: Field, compare: Callable[[list[Entrant]], T]) -> T:
    """The measure, and once more without the one that fails in the middle of it."""
    while True:
        try:
            return compare(field.entrants())
        except Failed as failed:
            if failed.contender in (YARDSTICK, OURS):
                raise
            progress(f"{failed}; once more without it")
            field.drop(failed)


def apart(entrants: list[Entrant]) -> list[Apart]:
    return [entrant.apart() for entrant in entrants]


def run(names: list[str], effort: Effort, command: str) -> Results:
    where = machine()
    began = perf_counter()
    field = muster(names)
    sheets = [
        *without_those_who_fail(field, lambda those: latency.compare(apart(those), {"100 B": 100}, effort)),
        *without_those_who_fail(field, lambda those: throughput.compare(apart(those), [64], OURS, effort)),
        *without_those_who_fail(field, lambda those: opening.compare(those, effort)),
    ]
    outcomes = without_those_who_fail(field, lambda those: misfortunes.compare(those, effort))
    return Results(
        command=command,
        machine=where,
        effort=effort,
        minutes=(perf_counter() - began) / 60,
        versions=field.versions,
        absent=field.absent,
        sheets={sheet.name: sheet for sheet in sheets},
        outcomes=outcomes,
    )


def table_of(grid: Grid) -> Table:
    table = Table(*grid.headings, title=grid.title, title_justify="left", show_lines=True)
    for row in grid.rows:
        table.add_row(*row)
    return table


def main() -> None:
    asked = arguments()
    effort = QUICK if asked.quick else FULL
    names = NAMES if asked.only is None else [YARDSTICK, OURS, *asked.only]
    results = run(names, effort, "make bench-peers" + (" QUICK=1" if asked.quick else ""))

    console = Console(width=None if sys.stdout.isatty() else 160)
    for grid in grids(results):
        console.print(table_of(grid))
    for name, why in results.absent.items():
        console.print(f"not measured: {name}: {why}", highlight=False, markup=False)
    console.print(f"{results.minutes:.1f} minutes", highlight=False)
    SIDE_BY_SIDE.parent.mkdir(parents=True, exist_ok=True)
    SIDE_BY_SIDE.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    if asked.only is not None:
        return
    page.rewrite(PAGE, results)
    if PLOTTER.exists():
        picture = [str(PLOTTER), "-m", "benchmarks.side_by_side.picture", str(SIDE_BY_SIDE), str(PICTURE)]
        subprocess.run(picture, cwd=ROOT, check=True)
    else:
        progress(f"no picture: {PLOTTER.relative_to(ROOT)} is missing")


if __name__ == "__main__":
    main()
