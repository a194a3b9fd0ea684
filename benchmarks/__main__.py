"""`python -m benchmarks [--quick] [--only NAME...] [--rounds N] [--json FILE] [--peers FOLDER]`"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import traceback
from pathlib import Path

import msgspec
from rich.console import Console

from benchmarks.effort import FULL, QUICK
from benchmarks.goals import GOALS
from benchmarks.machine import machine
from benchmarks.measures import MEASURES
from benchmarks.paths import C_ECHO, PEERS, RESULTS
from benchmarks.sheet import Sheet
from benchmarks.tables import table_of, table_of_goals


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios, not microseconds.")
    parser.add_argument("--quick", action="store_true", help="a minute instead of five")
    parser.add_argument("--only", nargs="+", choices=MEASURES, metavar="NAME",
                        help=", ".join(MEASURES))  # fmt: skip
    parser.add_argument("--rounds", type=int, help="of latency and throughput")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the numbers go")
    parser.add_argument("--peers", type=Path, default=PEERS, metavar="FOLDER", help="the peers' environment")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    if not Path(C_ECHO[0]).exists():
        sys.exit("the C plugin is missing: make benchmarks/bin/echo")
    peers = asked.peers if (asked.peers / "bin" / "python").exists() else None
    if peers is None:
        print(f"note: no environment in {asked.peers}; the MCP SDK is left out (make bench makes it)")
    effort = QUICK if asked.quick else FULL
    if asked.rounds:
        effort = dataclasses.replace(effort, rounds=asked.rounds)

    where = machine()
    sheets: dict[str, Sheet] = {}
    failed: list[str] = []
    for name in asked.only or MEASURES:
        try:
            sheets |= {sheet.name: sheet for sheet in MEASURES[name](effort, peers)}
        except Exception:  # what was measured before, and is measured after, counts all the same
            failed.append(name)
            traceback.print_exc()
    verdicts = [goal.judge(sheets) for goal in GOALS if not asked.only or goal.measured.sheet in sheets]

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(", ".join(f"{key} {value}" for key, value in where.items()), highlight=False)
    for sheet in sheets.values():
        console.print(table_of(sheet))
    if verdicts:
        console.print(table_of_goals(verdicts))
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    results = {"machine": where, "effort": effort, "sheets": sheets, "goals": verdicts}
    asked.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    if failed:
        sys.exit(f"could not be measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
