"""`python -m benchmarks.side_by_side.picture RESULTS PICTURE`: the whole story in one picture."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

PANELS = (
    ("latency 100 B", "p50", "one call of 100 B, µs", "less is better"),
    ("throughput, 64 in flight", "rate", "calls/s, 64 in flight", "more is better"),
    ("spawn to first answer", "p50", "spawn to first answer, ms", "less is better"),
    ("idle, each", "memory", "host memory per idle plugin, KiB", "less is better"),
)
"""Sheet, metric, title, and which side is the good one."""

GOOD, BAD = "#b7dfb9", "#f2b3ad"
KINDS = {
    "answer": ("answered", GOOD),
    "gone": ("nothing left", GOOD),
    "error": ("error", "#fbe3a6"),
    "left": ("left behind", BAD),
    "hangs": ("hangs", BAD),
}
"""What is written, on which colour."""
OURS, THEIRS, FLOOR = "#2b6cb0", "#8f99a3", "#c9cfd4"


def colour(name: str) -> str:
    return OURS if name.startswith("plughost") else FLOOR if name.startswith("raw") else THEIRS


def bars(axes: Axes, names: list[str], rounds: dict[str, dict[str, list[float]]], metric: str) -> None:
    for row, name in enumerate(names):
        values = rounds.get(name, {}).get(metric)
        if not values:
            axes.text(0.02, row, "–", transform=axes.get_yaxis_transform(), va="center", color=THEIRS)
            continue
        middle = max(statistics.median(values), 0.1)  # nothing at all has no place on a log scale
        axes.barh(row, middle, color=colour(name), height=0.62)
        axes.hlines(row, max(min(values), 0.1), max(*values, middle), color="#1a202c", linewidth=1)
        axes.annotate(
            written(middle), (max(*values, middle), row), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip


def written(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def misfortunes(axes: Axes, outcomes: dict[str, dict[str, Any]]) -> None:
    names = [*outcomes]
    columns = [*next(iter(outcomes.values()))]
    for row, name in enumerate(names):
        for column, what in enumerate(columns):
            outcome = outcomes[name][what]
            words, shade = KINDS[max(outcome["kinds"], key=[*KINDS].index)]  # the worst that came of it
            if words == "error" and "killed" in what:
                shade = GOOD  # there is nothing better to get
            timed = outcome["kinds"][0] in ("answer", "error")
            took = f"\n{written(statistics.median(outcome['seconds']) * 1e3)} ms" if timed else ""
            text = f"\n{outcome['said']}" if outcome["kinds"][0] == "left" else took
            axes.add_patch(pyplot.Rectangle((column, row), 1, 1, facecolor=shade, edgecolor="white"))
            axes.text(column + 0.5, row + 0.5, words + text, ha="center", va="center", fontsize=8)
    axes.set(xlim=(0, len(columns)), ylim=(len(names), 0))
    axes.set_xticks([column + 0.5 for column in range(len(columns))], [wrapped(what) for what in columns])
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def wrapped(text: str) -> str:
    words = text.split()
    return " ".join(words[: (len(words) + 1) // 2]) + "\n" + " ".join(words[(len(words) + 1) // 2 :])


def draw(results: dict[str, Any]) -> pyplot.Figure:
    names = [*results["versions"]]
    outcomes = {name: row for name, row in results["outcomes"].items() if name in names}
    figure = pyplot.figure(figsize=(15, 10.5), dpi=110, layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(len(names) + 2, len(outcomes) + 2))
    panels = above.subplots(1, len(PANELS), sharey=True)
    for axes, (sheet, metric, title, good) in zip(panels, PANELS, strict=True):
        bars(axes, names, results["sheets"][sheet]["rounds"], metric)
        axes.set_xscale("log")
        axes.set_title(f"{title}\n({good})", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color="#e5e8eb", linewidth=0.8)
        axes.set_axisbelow(True)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * (high / low) ** 0.22)  # room for the numbers
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    misfortunes(below.subplots(), outcomes)
    where = results["machine"]
    figure.suptitle(
        f"plughost beside its peers · {results['command']} · {where['when'][:10]} · {where['cpus']} CPUs · "
        f"median round, lines from lowest to highest · log scales",
        fontsize=11,
    )
    return figure


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text())).savefig(sys.argv[2])
