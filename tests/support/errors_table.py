"""docs/errors.md, written from the classes of errors: code, cause (docstring) and remedy.

`python -m tests.support.errors_table` writes it anew (`make tables`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

from plughost.errors import PluginError
from tests.support import ROOT

FILE = ROOT / "docs/errors.md"
GROUPS = {
    "plughost.errors": "Every contract",
    "plughost.contracts.mcptest.errors": "mcptest",
    "plughost.contracts.rune.errors": "rune",
    "plughost.contracts.vai.errors": "vai",
    "plughost.vai.packages.errors": "Packages",
    "plughost.vai.packages.oci.errors": "Registries",
    "plughost.control.errors": "Talking to a running host",
    "plughost.cli.main": "The command line",
}
"""By module: the heading of its errors."""
OTHERS = ("plughost.vai.database.errors", "plughost.vai.gateway.messages", "plughost.vai.invocations.tokens")
"""Modules whose classes use codes of others."""
HEAD = """# Errors

Every failure of a plugin is a `plughost.PluginError`. Its `code` is stable, so that programs can compare it. `explain()` returns the message, the
last lines of the plugin's stderr and a hint; the command line prints the same, or JSON with `--json`. `A ⊂ B` below means that
`except B` also catches `A`. An invocation of a vai package ends with a status and a reason instead: [invocations](invocations.md#how-it-ends).

This page is generated from the classes by `make tables`.
"""
IN_THE_MESSAGE = "Follow the message: it names what to correct."


def page() -> str:
    parts = [HEAD]
    for module, title in GROUPS.items():
        rows = [_row(kind) for kind in _kinds() if kind.__module__ == module and "code" in vars(kind)]
        parts.append(
            "\n".join([f"## {title}\n", "| code | class | cause | remedy |", "|---|---|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def missing() -> set[str]:
    """The modules of ours that define errors and have no place here."""
    return {kind.__module__ for kind in _kinds()} - GROUPS.keys() - set(OTHERS)


def _kinds(parent: type[PluginError] = PluginError) -> Iterator[type[PluginError]]:
    for module in (*GROUPS, *OTHERS):
        import_module(module)
    yield parent
    for kind in parent.__subclasses__():
        if kind.__module__.startswith("plughost."):
            yield from _kinds(kind)


def _row(kind: type[PluginError]) -> str:
    base = kind.__base__
    assert base is not None
    name = f"`{kind.__name__}`" if kind is PluginError else f"`{kind.__name__}` ⊂ `{base.__name__}`"
    remedy = kind.remedy[:1].upper() + kind.remedy[1:] + "." if kind.remedy else IN_THE_MESSAGE
    cause = " ".join((inspect.getdoc(kind) or "").split())
    return f"| `{kind.code}` | {name} | {cause} | {remedy} |"


def main() -> None:
    FILE.write_text(page())


if __name__ == "__main__":
    main()
