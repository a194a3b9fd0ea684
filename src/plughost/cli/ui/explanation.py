"""The tables of `plughost explain`."""

from __future__ import annotations

from collections.abc import Sequence

from plughost.cli.ui import output
from plughost.sandbox.explain.report import EnforcedLimit, Explanation

CLASSES = {
    "strict": "confined by namespaces, Landlock, seccomp and resource limits",
    "landlock": "confined by Landlock, seccomp and resource limits, without namespaces of its own",
    "none": "the kernel enforces nothing; what the host checks is listed below",
}
SIZES = ("memory", "file_size", "scratch")


def show(found: Explanation) -> None:
    """Prints an explanation as tables."""
    would = "" if found.problem is None else "would be "
    _table(
        "",
        [
            ("plugin", f"{found.plugin} ({found.contract})"),
            ("sandbox", f"{found.sandbox}: {CLASSES[found.sandbox]}"),
            ("chosen by", found.chosen_by),
            *(_problem(found.problem) if found.problem is not None else []),
            ("asks for", _asked(found.asked.capabilities, "known once it runs")),
            (
                "powers",
                _asked(
                    found.asked.powers, "not declared by plugins of this contract: the operator alone decides"
                ),
            ),
            *([("for each call", ", ".join(found.asked.by_call))] if found.asked.by_call else []),
        ],
    )
    _table(
        f"{would}granted",
        [
            (grant.what if grant.kind == "capability" else f"{grant.kind} {grant.what}", grant.rule, grant.by)
            for grant in found.granted
        ],
        ("what", "rule", f"{would}enforced by"),
    )
    _table(
        "asked for and not granted",
        [
            (f"{each.kind} {each.what}", each.why, (*each.toml.split("\n"), each.option))
            for each in found.missing
        ],
        ("what", "why", "how to grant it"),
    )
    _table(
        "granted, but not asked for (no effect)",
        [(each,) for each in found.unused],
    )
    if found.bound is not None:
        bound = found.bound
        _table(
            "in its sandbox",
            [
                ("network", bound.network),
                ("starts in", bound.starts_in),
                ("writable", [_place(path, bound) for path in bound.writable]),
                ("read-only", [_place(path, bound) for path in bound.read_only]),
            ],
        )
    _table("its variables", [(", ".join(found.environment),)] if found.environment else [])
    if found.sandbox != "none":
        _table(
            f"{would}limited",
            [(each.name, _amount(each.name, each.value), each.rule, each.by) for each in found.limits],
            ("limit", "", "rule", f"{would}enforced by"),
        )
        _table(f"{would}enforced", [(each.what, each.by) for each in found.held], ("what", "by"))
    _table(
        "checked by the host over the wire",
        [
            (each.method, " or ".join(each.needs) or "no capability", "yes" if each.allowed else "no")
            for each in found.wire
        ],
        ("method", "needs", "allowed"),
    )
    _table("lint", [(each,) for each in found.lints])


def _problem(problem: dict[str, str]) -> list[tuple[str, output.Cell]]:
    rows: list[tuple[str, output.Cell]] = [("unavailable", problem["message"].split("\n"))]
    return [*rows, ("remedy", problem["hint"])] if problem.get("hint") else rows


def _asked(words: Sequence[str] | None, unknown: str) -> str:
    return unknown if words is None else ", ".join(words) or "nothing"


def _place(path: str, bound: EnforcedLimit) -> str:
    size = f", {_amount('scratch', bound.scratch)}" if path == "/tmp" and bound.scratch else ""
    return f"{path} (made for it{size})" if path in bound.made else path


def _amount(name: str, value: int | None) -> str:
    if value is None:
        return "none"
    return f"{value >> 20} MiB" if name in SIZES and value >= 1 << 20 else str(value)


def _table(title: str, rows: Sequence[Sequence[output.Cell]], heads: Sequence[str] = ()) -> None:
    output.table(rows, heads, title=title)
