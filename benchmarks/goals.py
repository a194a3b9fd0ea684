"""What we promise, and whether it was kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.databases import POSTGRESQL, SQLITE
from benchmarks.measures import (
    calling,
    confined,
    draining,
    fan_out,
    idle,
    importing,
    integrity,
    invocations,
    keys,
    loop,
    neighbour,
    old_rows,
    procrastinate,
    publishing,
    pull,
    screen,
    sdk,
    sessions,
    storage,
)
from benchmarks.roster import (
    BARE_C,
    BARE_PYTHON,
    MCP,
    OURS_C,
    OURS_C_AINB,
    OURS_PYTHON,
    UVLOOP_C,
    UVLOOP_PYTHON,
    YARDSTICK,
)
from benchmarks.sheet import Sheet
from benchmarks.stats import Spread

Sheets = Mapping[str, Sheet]
CALL = "latency 100 B"
MANY = "throughput, 64 in flight"
IDLE = idle.label(500)


@dataclass(frozen=True)
class Measured:
    """What a goal is about: the name of a sheet, and what is read from it."""

    sheet: str
    read: Callable[[Sheet], Spread]


@dataclass(frozen=True)
class Goal:
    text: str
    sign: str
    """≤ or ≥"""
    limit: float
    unit: str
    measured: Measured

    def judge(self, sheets: Sheets) -> Verdict:
        try:
            spread = self.measured.read(sheets[self.measured.sheet])
        except KeyError:  # the measure, or a contender, was left out
            return Verdict(self.text, self.wanted, None, "-")
        kept = spread.median <= self.limit if self.sign == "≤" else spread.median >= self.limit
        return Verdict(self.text, self.wanted, spread, "PASS" if kept else "MISS")

    @property
    def wanted(self) -> str:
        return f"{self.sign} {self.limit:g} {self.unit}".strip()


@dataclass(frozen=True)
class Verdict:
    goal: str
    wanted: str
    spread: Spread | None
    verdict: str


def p50(of: str, to: str) -> Measured:
    return Measured(CALL, lambda sheet: sheet.ratio("p50", of, to))


def rate(of: str, to: str) -> Measured:
    return Measured(MANY, lambda sheet: sheet.ratio("rate", of, to))


def idle_cost(metric: str) -> Measured:
    return Measured("idle, each", lambda sheet: sheet.spread(IDLE, metric))


def disturbed_p99(scenario: str) -> Measured:
    """Of the calls made while the noise lasted: among those in the silence they would not be seen."""
    return Measured("neighbour", lambda sheet: sheet.ratio("during", scenario, neighbour.ALONE))


def disturbed_worst(scenario: str) -> Measured:
    return Measured("neighbour", lambda sheet: sheet.spread(scenario, "worst"))


def held_up(name: str) -> Measured:
    return Measured(loop.NAME, lambda sheet: sheet.spread(name, "gap"))


def first_answer(contract: str) -> Measured:
    return Measured(sdk.label(contract), lambda sheet: sheet.ratio("time", sdk.SDK, sdk.BARE))


def stored(way: str) -> Measured:
    return Measured(storage.NAME, lambda sheet: sheet.ratio("rate", way, storage.BARE))


def confined_later(program: str) -> Measured:
    return Measured(
        confined.cold(program), lambda sheet: sheet.difference("time", confined.STRICT, confined.NONE)
    )


def confined_slower(program: str) -> Measured:
    return Measured(confined.warm(program), lambda sheet: sheet.ratio("p50", confined.STRICT, confined.NONE))


def invoked(way: str, to: str) -> Measured:
    return Measured(invocations.WARM, lambda sheet: sheet.ratio("p50", way, to))


def published(database: str) -> Measured:
    return Measured(publishing.label(database), publishing.over_bare)


def drained(database: str) -> Measured:
    return Measured(draining.NAME, lambda sheet: sheet.spread(draining.one(database), "rate"))


def grown(database: str, metric: str) -> Measured:
    return Measured(old_rows.label(database), lambda sheet: sheet.ratio(metric, old_rows.MANY, old_rows.FEW))


def checked(way: str) -> Measured:
    return Measured(integrity.NAME, lambda sheet: sheet.spread(way, "time"))


def drawing(scenario: str, metric: str) -> Measured:
    return Measured(screen.NAME, lambda sheet: sheet.spread(scenario, metric))


def session_costs(metric: str) -> Measured:
    return Measured(sessions.COSTS, lambda sheet: sheet.ratio(metric, sessions.OURS, sessions.PLAIN))


def on_screen(metric: str) -> Measured:
    return Measured(sessions.SCREEN, lambda sheet: sheet.spread(sessions.OURS, metric))


def astray(sheet: Sheet) -> Spread:
    """In all rounds together: the middle one would forgive too much."""
    return Spread.of([sum(sheet.rounds[fan_out.OURS]["astray"])])


GOALS = (
    Goal("warm call, Python plugin / yardstick", "≤", 3.0, "×", p50(OURS_PYTHON, YARDSTICK)),
    Goal("warm call, C plugin / yardstick", "≤", 2.2, "×", p50(OURS_C, YARDSTICK)),
    Goal("the same on uvloop, Python plugin", "≤", 3.0, "×", p50(UVLOOP_PYTHON, YARDSTICK)),
    Goal("the same on uvloop, C plugin", "≤", 2.2, "×", p50(UVLOOP_C, YARDSTICK)),
    Goal("warm call, MCP SDK / Python plugin", "≥", 40, "×", p50(MCP, OURS_PYTHON)),
    Goal("64 in flight, Python plugin / MCP SDK", "≥", 100, "×", rate(OURS_PYTHON, MCP)),
    Goal("64 in flight, Python plugin / bare loop", "≥", 0.6, "×", rate(OURS_PYTHON, BARE_PYTHON)),
    Goal("64 in flight, C plugin / bare loop", "≥", 0.6, "×", rate(OURS_C, BARE_C)),
    Goal("warm call, C plugin, ainb / mcptest", "≤", 1.5, "×", p50(OURS_C_AINB, OURS_C)),
    Goal("idle plugin, host memory", "≤", 8, "KiB", idle_cost("memory")),
    Goal("idle plugin, descriptors", "≤", 5, "", idle_cost("fds")),
    Goal("idle plugin, threads", "≤", 0, "", idle_cost("threads")),
    *(
        goal
        for scenario in (neighbour.HUGE, neighbour.FLOOD)
        for goal in (
            Goal(f"p99 {scenario} / alone", "≤", 3, "×", disturbed_p99(scenario)),
            Goal(f"worst {scenario}", "≤", 25, "ms", disturbed_worst(scenario)),
        )
    ),
    *(Goal(f"worst loop gap, {name}", "≤", 50, "ms", held_up(name)) for name in (loop.HUGE, loop.HOSTILE)),
    Goal(
        f"p99 of a key during {keys.FLOODED}",
        "≤",
        5,
        "ms",
        Measured("keys", lambda sheet: sheet.spread(keys.FLOODED, "p99")),
    ),
    Goal("fan-out, events lost or out of order", "≤", 0, "", Measured("fan-out", astray)),
    Goal(
        "import plughost",
        "≤",
        60,
        "ms",
        Measured("import", lambda sheet: sheet.difference("time", importing.OURS, importing.NOTHING)),
    ),
    Goal(
        "plughost call / from plughost import Host",
        "≤",
        1.7,
        "×",
        Measured(calling.NAME, lambda sheet: sheet.ratio("time", calling.OURS, importing.HOST)),
    ),
    *(
        Goal(f"{sdk.label(contract)}, SDK / bare script", "≤", 1.5, "×", first_answer(contract))
        for contract in sdk.FIRST
    ),
    Goal(
        "invocation of a tool in C, warm inline / yardstick",
        "≤",
        5,
        "×",
        invoked(invocations.INLINE, YARDSTICK),
    ),
    Goal("the same on uvloop", "≤", 5, "×", invoked(invocations.UVLOOP, YARDSTICK)),
    Goal(
        "invocation of a tool in C, warm isolated / inline",
        "≤",
        1.5,
        "×",
        invoked(invocations.BOUND, invocations.INLINE),
    ),
    Goal(
        "p99 of invocations, sustained / vai calls",
        "≤",
        3.5,
        "×",
        Measured(
            invocations.SUSTAINED,
            lambda sheet: sheet.ratio("p99", invocations.INLINE, invocations.BARE),
        ),
    ),
    *(
        Goal(f"publishing / the fastest bare statements, {database}", "≥", 0.7, "×", published(database))
        for database in (SQLITE, POSTGRESQL)
    ),
    Goal("draining deliveries, SQLite", "≥", 5000, "/s", drained(SQLITE)),
    Goal("draining deliveries, PostgreSQL", "≥", 10_000, "/s", drained(POSTGRESQL)),
    Goal(
        "draining deliveries, two processes / one, PostgreSQL",
        "≥",
        1.0,
        "×",
        Measured(draining.NAME, lambda sheet: sheet.ratio("rate", draining.TWO, draining.one(POSTGRESQL))),
    ),
    Goal(
        "draining deliveries / jobs of procrastinate",
        "≥",
        3.0,
        "×",
        Measured(
            procrastinate.NAME, lambda sheet: sheet.ratio("rate", procrastinate.OURS, procrastinate.PEER)
        ),
    ),
    *(
        Goal(f"{old_rows.label(database)}, {metric}: many / few", "≤", 1.3, "×", grown(database, metric))
        for database in (SQLITE, POSTGRESQL)
        for metric in old_rows.METRICS
    ),
    Goal(f"CPU of a screen, {screen.RUNS}", "≤", 25, "%", drawing(screen.RUNS, "cpu")),
    Goal(f"worst key of a screen, {screen.CROWDED}", "≤", 20, "ms", drawing(screen.CROWDED, "worst key")),
    Goal(
        f"worst frame of a screen, {screen.CROWDED}", "≤", 100, "ms", drawing(screen.CROWDED, "worst frame")
    ),
    Goal("storage, one set at a time / bare sqlite3", "≥", 0.6, "×", stored(storage.ALONE)),
    Goal("storage, 64 sets in flight / bare sqlite3", "≥", 8, "×", stored(storage.SHARED)),
    Goal(
        "install a signed 200 MB / sha256sum and tar x",
        "≤",
        1.5,
        "×",
        Measured(pull.NAME, lambda sheet: sheet.ratio("time", pull.OURS, pull.BARE)),
    ),
    Goal("check of an installed package, unchanged", "≤", 5, "ms", checked(integrity.WARM)),
    Goal("check of an installed package, first time", "≤", 30, "ms", checked(integrity.COLD)),
    *(
        goal
        for program in confined.PROGRAMS
        for goal in (
            Goal(f"{confined.cold(program)}, strict - none", "≤", 10, "ms", confined_later(program)),
            Goal(f"{confined.warm(program)}, strict / none", "≤", 1.1, "×", confined_slower(program)),
        )
    ),
    Goal("session logs, processors / plain json.loads", "≤", 2.0, "×", session_costs("cpu")),
    Goal("session logs, time / plain json.loads", "≤", 2.0, "×", session_costs("wall")),
    Goal("session logs, first picture", "≤", 2.0, "s", on_screen("first")),
    Goal("session logs, worst frame meanwhile", "≤", 100, "ms", on_screen("frame")),
    Goal("session logs, worst key meanwhile", "≤", 20, "ms", on_screen("key")),
)
