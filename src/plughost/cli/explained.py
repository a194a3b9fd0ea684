"""An explanation as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from plughost.base.text import visible
from plughost.sandbox.explanation import Bound, Explanation

CLASSES = {
    "strict": "namespaces, Landlock, seccomp and limits hold it",
    "landlock": "Landlock, seccomp and limits hold it; it has no namespaces of its own",
    "none": "nothing is enforced by the kernel; what the host checks over the wire is below",
}
SIZES = ("memory", "file_size", "scratch")


def show(found: Explanation) -> None:
    console = Console()
    would = "" if found.problem is None else "would be "
    _table(
        console,
        "",
        [
            ("plugin", f"{found.plugin} ({found.contract})"),
            ("sandbox", f"{found.sandbox}: {CLASSES[found.sandbox]}"),
            ("chosen by", found.chosen_by),
            *(_problem(found.problem) if found.problem is not None else []),
            ("asks for", _asked(found.asked.capabilities, "told over the wire, once it runs")),
            ("powers", _asked(found.asked.powers, "no words for them: the operator alone decides")),
            *([("for each call", ", ".join(found.asked.by_call))] if found.asked.by_call else []),
        ],
    )
    _table(
        console,
        f"{would}granted",
        [
            (grant.what if grant.kind == "capability" else f"{grant.kind} {grant.what}", grant.rule, grant.by)
            for grant in found.granted
        ],
        ("what", "rule", f"{would}held by"),
    )
    _table(
        console,
        "asked for and not granted",
        [(f"{each.kind} {each.what}", each.why, f"{each.toml}\n{each.option}") for each in found.missing],
        ("what", "why", "words that grant it"),
    )
    _table(
        console,
        "granted without effect: not asked for",
        [(each,) for each in found.unused],
    )
    if found.bound is not None:
        bound = found.bound
        _table(
            console,
            "in its sandbox",
            [
                ("network", bound.network),
                ("starts in", bound.starts_in),
                ("writable", "\n".join(_place(path, bound) for path in bound.writable)),
                ("read-only", "\n".join(_place(path, bound) for path in bound.read_only)),
            ],
        )
    _table(console, "its variables", [(", ".join(found.environment),)] if found.environment else [])
    if found.sandbox != "none":
        _table(
            console,
            f"{would}limited",
            [(each.name, _amount(each.name, each.value), each.rule, each.by) for each in found.limits],
            ("limit", "", "rule", f"{would}held by"),
        )
        _table(console, f"{would}held", [(each.what, each.by) for each in found.held], ("what", "by"))
    _table(
        console,
        "checked by the host over the wire",
        [
            (each.method, " or ".join(each.needs) or "no capability", "yes" if each.allowed else "no")
            for each in found.wire
        ],
        ("method", "needs", "allowed"),
    )
    _table(console, "lint", [(each,) for each in found.lints])


def _problem(problem: dict[str, str]) -> list[tuple[str, str]]:
    rows = [("cannot be had", problem["message"])]
    return [*rows, ("remedy", problem["hint"])] if problem.get("hint") else rows


def _asked(words: Sequence[str] | None, unknown: str) -> str:
    return unknown if words is None else ", ".join(words) or "nothing"


def _place(path: str, bound: Bound) -> str:
    size = f", {_amount('scratch', bound.scratch)}" if path == "/tmp" and bound.scratch else ""
    return f"{path} (made for it{size})" if path in bound.made else path


def _amount(name: str, value: int | None) -> str:
    if value is None:
        return "none"
    return f"{value >> 20} MiB" if name in SIZES and value >= 1 << 20 else str(value)


def _table(
    console: Console, title: str, rows: Iterable[tuple[str, ...]], heads: tuple[str, ...] = ()
) -> None:
    """What plugins and manifests say is text, never markup, and nothing that a terminal would obey."""
    rows = list(rows)
    if not rows:
        return
    if title:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(show_header=bool(heads), box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads or ("",) * len(rows[0]):
        table.add_column(head, overflow="fold")  # a path that is cut names nothing
    for row in rows:
        table.add_row(*(Text("\n".join(map(visible, cell.split("\n")))) for cell in row))
    console.print(table)
