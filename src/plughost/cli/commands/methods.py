"""`plughost methods`: lists what can be called of a plugin, without starting it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from plughost import interrupt
from plughost.catalogue import CatalogueEntry
from plughost.cli.options import running, targets
from plughost.cli.ui import output
from plughost.control import ControlClient
from plughost.handshake_store import default_folder
from plughost.host import Host
from plughost.spec import PluginSpec


@click.command()
@targets.options
@running.hosts_or_new
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with descriptions and schemas.")
@click.option("--start", is_flag=True, help="Start the plugin first and include what its handshake reports.")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def methods(
    target: targets.Target,
    choice: running.HostChoice,
    as_json: bool,
    start: bool,
    words: tuple[str, ...],
) -> None:
    """List the methods of a plugin.

    The list comes from its manifest, from its last handshake, and from the tables
    [plugins.NAME.methods.METHOD] of plughost.toml. The plugin is not started, unless you pass --start.
    If `plughost run` keeps the plugin running, that host is asked.

    \b
    Examples:
      plughost methods ./notes
      plughost methods ./notes --json
    """
    name = target.running_name(words)
    host = running.find_named(choice, name)
    if host is not None and name is not None:
        _refuse(words[1:])
        entries = interrupt.run(_entries_of_running(host.path, name, start))
    else:
        spec, rest = target.take(words)
        _refuse(rest)
        name = spec.name
        entries = interrupt.run(_entries(spec, start))
    if as_json:
        output.answer({"plugin": name, "methods": entries})
    elif entries:
        output.table([_row(entry) for entry in entries])
    else:
        output.say(
            f"the methods of {name} are unknown: no manifest lists them, or the plugin has not run yet "
            "(try --start)"
        )


def _refuse(rest: Sequence[str]) -> None:
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")


async def _entries_of_running(path: Path, name: str, start: bool) -> list[CatalogueEntry]:
    async with ControlClient(path) as client:
        if start:
            await client.start(name)
        return await client.methods(name)


async def _entries(spec: PluginSpec, start: bool) -> list[CatalogueEntry]:
    async with Host(dry=not start, handshakes=default_folder()) as host:
        plugin = await host.add(spec, start=False)
        if start:
            await plugin.start()
        return host.catalogue.entries(spec.name)


def _row(entry: CatalogueEntry) -> tuple[str, str, str]:
    about = entry.title or entry.description.partition("\n")[0]
    return entry.name, entry.kind, about or "-"
