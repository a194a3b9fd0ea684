"""The part of docs/benchmarks.md that a run writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.paths import PICTURE
from benchmarks.side_by_side.grids import Grid, grids
from benchmarks.side_by_side.results import Results

BEGIN = "<!-- peers: written by make bench-peers, from here -->"
END = "<!-- peers: to here -->"


def rewrite(page: Path, results: Results) -> None:
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page.name} has lost its marks: {BEGIN} ... {END}")
    page.write_text("".join((before, BEGIN, "\n", *section(results), END, after)))


def section(results: Results) -> Iterator[str]:
    where = results.machine
    yield f"\n`{results.command}` on {str(where['when'])[:10]}, {results.minutes:.1f} minutes: "
    yield f"{where['cpus']} CPUs ({where['cpu']}), Linux {where['kernel']}, load before {where['load']:.1f}. "
    yield "Each cell: the median round (lowest..highest).\n\n"
    yield f"![plughost beside its peers]({PICTURE.name})\n"
    for grid in grids(results):
        yield f"\n**{grid.title}**\n\n"
        yield from markdown(grid)
    yield "\n**What was measured**: "
    yield "; ".join(f"{name}: {_versions(found)}" for name, found in results.versions.items()) + ".\n"
    for name, why in results.absent.items():
        yield f"\n**Not measured**: {name}: {why}\n"
    yield "\n"


def markdown(grid: Grid) -> Iterator[str]:
    for row in (grid.headings, ["---"] * len(grid.headings), *grid.rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in row) + " |\n"


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())
