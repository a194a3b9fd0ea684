"""`plughost inspect`: shows how the host resolves a plugin's spec, without starting it."""

from __future__ import annotations

from typing import Any

import click

from plughost import interrupt
from plughost.cli.options import running, targets
from plughost.cli.ui import output
from plughost.host import Host
from plughost.spec import PluginSpec


@click.command()
@targets.options
@running.hosts_or_new
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def inspect(
    target: targets.Target,
    choice: running.HostChoice,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Check and show how a plugin is configured, without starting it.

    If a running host has the plugin, shows the configuration that this host uses, and its measurements.
    Values of environment variables are not shown.
    """
    name = target.running_name(words)
    host = running.find_named(choice, name)
    if host is not None and len(words) == 1:
        seen = next(each for each in host.plugins if each["name"] == name)
    else:
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
    parts = {key: seen.get(key) or {} for key in ("lifecycle", "metrics")}
    for key, value in {**seen, **parts["lifecycle"], **parts["metrics"]}.items():
        if key in (*parts, "instances"):
            continue
        words = [f"{name}={each}" for name, each in value.items()] if isinstance(value, dict) else value
        text = " ".join(words) if isinstance(words, list) else words
        rows.append((key, str(text if text not in ("", None) else "-")))
    output.table(rows)
