"""`plughost inspect`: shows how the host resolves a plugin's spec, without starting it."""

from __future__ import annotations

from typing import Any

import click

from plughost import interrupt
from plughost.cli.options import targets
from plughost.cli.ui import output
from plughost.host import Host
from plughost.spec import PluginSpec


@click.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def inspect(
    target: targets.Target,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Check and show how a plugin is configured, without starting it.

    Values of environment variables are not shown.
    """
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    seen = interrupt.run(_inspect(spec))
    if as_json:
        output.answer(seen)
    else:
        _show(seen)


async def _inspect(spec: PluginSpec) -> dict[str, Any]:
    async with Host(dry=True) as host:
        return (await host.add(spec, start=False)).inspect()


def _show(seen: dict[str, Any]) -> None:
    rows = []
    for key, value in {**seen, **seen["lifecycle"]}.items():
        if key in ("lifecycle", "instances"):
            continue
        text = " ".join(value) if isinstance(value, list) else value
        rows.append((key, str(text if text not in ("", None) else "-")))
    output.table(rows)
