"""`plughost methods`: lists what can be called of a plugin, without starting it."""

from __future__ import annotations

import click

from plughost import interrupt
from plughost.catalogue import CatalogueEntry
from plughost.cli.options import targets
from plughost.cli.ui import output
from plughost.handshake_store import default_folder
from plughost.host import Host
from plughost.spec import PluginSpec


@click.command()
@targets.options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with descriptions and schemas.")
@click.option("--start", is_flag=True, help="Start the plugin first and include what its handshake reports.")
@click.argument("words", nargs=-1, metavar="[TARGET]")
def methods(target: targets.Target, as_json: bool, start: bool, words: tuple[str, ...]) -> None:
    """List the methods of a plugin.

    The list comes from its manifest, from its last handshake, and from the tables
    [plugins.NAME.methods.METHOD] of plughost.toml. The plugin is not started, unless you pass --start.

    \b
    Examples:
      plughost methods ./notes
      plughost methods ./notes --json
    """
    spec, rest = target.take(words)
    if rest:
        raise click.UsageError(f"unexpected: {' '.join(rest)}")
    entries = interrupt.run(_entries(spec, start))
    if as_json:
        output.answer({"plugin": spec.name, "methods": entries})
    elif entries:
        output.table([_row(entry) for entry in entries])
    else:
        output.say(
            f"the methods of {spec.name} are unknown: plugins of {spec.contract} have no manifest that lists "
            "them, or the plugin has not run yet (try --start)"
        )


async def _entries(spec: PluginSpec, start: bool) -> list[CatalogueEntry]:
    async with Host(dry=not start, handshakes=default_folder()) as host:
        plugin = await host.add(spec, start=False)
        if start:
            await plugin.start()
        return host.catalogue.entries(spec.name)


def _row(entry: CatalogueEntry) -> tuple[str, str, str]:
    about = entry.title or entry.description.partition("\n")[0]
    return entry.name, entry.kind, about or "-"
