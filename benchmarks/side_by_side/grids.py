"""The results as tables of words, before anybody asks what they look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.roster import YARDSTICK
from benchmarks.sheet import Sheet
from benchmarks.side_by_side import orphans, trouble
from benchmarks.side_by_side.entrants import OURS
from benchmarks.side_by_side.misfortunes import Outcome
from benchmarks.side_by_side.opening import IDLE, SPAWN
from benchmarks.side_by_side.results import Results
from benchmarks.stats import Spread
from benchmarks.tables import told

CALL = "latency 100 B"
MANY = "throughput, 64 in flight"
LONGEST = 90
"""Letters of somebody's own words that are shown."""

Column = tuple[str, Callable[[str], str]]
"""A heading, and what stands under it for a contender."""


@dataclass(frozen=True)
class Grid:
    title: str
    headings: list[str]
    rows: list[list[str]]


def grids(results: Results) -> Iterator[Grid]:
    sheets = results.sheets
    calls = [
        _metric(sheets[CALL], "p50", "one at a time, p50 µs"),
        _metric(sheets[CALL], "p99", "p99 µs"),
        _ratio(sheets[CALL], "p50", YARDSTICK, "× raw pipe"),
        _metric(sheets[MANY], "rate", "64 in flight, calls/s"),
        _ratio(sheets[MANY], "rate", OURS, "× plughost"),
    ]
    plugins = [
        _metric(sheets[SPAWN], "p50", "spawn to first answer, p50 ms"),
        _ratio(sheets[SPAWN], "p50", YARDSTICK, "× raw pipe"),
        _metric(sheets[IDLE], "memory", "host memory per idle plugin, KiB"),
        _metric(sheets[IDLE], "fds", "fds"),
        _metric(sheets[IDLE], "threads", "threads"),
    ]
    everyone = [*results.versions]
    sufferers = [name for name in everyone if name in results.outcomes]
    yield _grid("Calls of 100 B", everyone, calls)
    yield _grid("Starting and keeping a plugin", everyone, plugins)
    yield _grid("A plugin misbehaves", sufferers, [_misfortune(results, what) for what in trouble.TROUBLES])
    yield _grid("The host is killed", sufferers, [_misfortune(results, what) for what in orphans.CASES])


def _grid(title: str, names: list[str], columns: list[Column]) -> Grid:
    headings = ["", *(heading for heading, _ in columns)]
    return Grid(title, headings, [[name, *(cell(name) for _, cell in columns)] for name in names])


def _metric(sheet: Sheet, metric: str, heading: str) -> Column:
    return heading, _known(sheet, lambda name: sheet.spread(name, metric))


def _ratio(sheet: Sheet, metric: str, to: str, heading: str) -> Column:
    return heading, _known(sheet, lambda name: sheet.ratio(metric, name, to))


def _known(sheet: Sheet, spread: Callable[[str], Spread]) -> Callable[[str], str]:
    return lambda name: told(spread(name)) if name in sheet.rounds else "–"


def _misfortune(results: Results, what: str) -> Column:
    return what, lambda name: in_words(results.outcomes[name][what])


def in_words(outcome: Outcome) -> str:
    if len({*outcome.kinds}) > 1:
        return ", ".join(f"{outcome.kinds.count(kind)} × {kind}" for kind in sorted({*outcome.kinds}))
    took = told(Spread.of([seconds * 1e3 for seconds in outcome.seconds]))
    match outcome.kinds[0]:
        case "answer":
            return f"answered after {took} ms"
        case "error":
            return f"error after {took} ms: {_short(outcome.said)}"
        case "hangs":
            return f"hangs (no answer in {min(outcome.seconds):.0f} s)"
        case "gone":
            return "nothing left"
        case left:
            return f"{left}: {outcome.said}"


def _short(said: str) -> str:
    line = " ".join(said.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
