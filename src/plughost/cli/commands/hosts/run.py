"""`plughost run`: keeps plugins running and prints their events."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from plughost import control, handshake_store, interrupt
from plughost.cli.options import plugin_roots, targets
from plughost.cli.options.record import TrafficRecording
from plughost.cli.options.record import options as record_options
from plughost.cli.reloading import Reloader, WatchedFiles, config_files
from plughost.cli.ui import output
from plughost.cli.ui.event_text import event_text, is_repetition
from plughost.cli.ui.line_writer import LineWriter
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import sandbox_class
from plughost.control.managed import LoadSpecs
from plughost.engine.io.tap import Tap
from plughost.errors import InvalidSpec, PluginError
from plughost.events import CatalogueChanged, Subscription
from plughost.host import Host, Plugin
from plughost.permissions.parse import KINDS
from plughost.sandbox.explain.lints import HOW
from plughost.spec import PluginSpec


@click.command()
@targets.options
@plugin_roots.option
@record_options
@click.option(
    "--socket-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of control sockets, through which other commands reach this host.",
)
@click.option("--watch", is_flag=True, help="Apply changes to plughost.toml while the host runs.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON, one per line.")
@click.argument("words", nargs=-1, metavar="[TARGET...]")
def run(
    target: targets.Target,
    root: Path | None,
    recording: TrafficRecording,
    folder: Path | None,
    watch: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Run plugins until Ctrl-C.

    Without a TARGET, all plugins of plughost.toml are run. `call`, `ps`, `logs`, `start`, `restart`, `reload`
    and `stop` reach them from another terminal. SIGHUP applies what has changed in plughost.toml.
    """
    if root is not None and words:
        raise click.UsageError("--root runs all its plugins; give either --root or TARGETs")
    specs = target.all(words) if root is None else plugin_roots.take(root, words, target)[0]
    if not specs:
        raise InvalidSpec("there is no plugin to run")
    _warn_unsandboxed(specs)

    def load() -> list[PluginSpec]:
        """The same plugins, read again."""
        try:
            return target.all(words) if root is None else plugin_roots.take(root, words, target)[0]
        except click.UsageError as error:
            raise InvalidSpec(error.format_message()) from error

    watched = config_files(target.file, root, words) if watch else None
    with recording.tap() as tap:
        interrupt.run(
            _run(
                specs, load, folder or control.default_folder(), as_json, tap, watched, start_all=root is None
            )
        )


async def _run(
    specs: Sequence[PluginSpec],
    load: LoadSpecs,
    folder: Path,
    as_json: bool,
    tap: Tap | None,
    watched: WatchedFiles | None,
    *,
    start_all: bool,
) -> None:
    loop = asyncio.get_running_loop()
    asked_to_end = asyncio.Event()
    interrupt.ask_to_end(lambda _: asked_to_end.set(), signal.SIGINT, signal.SIGTERM)
    out = LineWriter(1 if as_json else 2, lambda: loop.call_soon_threadsafe(asked_to_end.set))
    async with Host(tap=tap, handshakes=handshake_store.default_folder()) as host:
        with host.events() as events:
            printing = asyncio.create_task(_print_events(events, out, as_json))
            managed = control.ManagedPlugins(host, load, start_all=start_all)
            async with (
                control.Control(host, folder, asked_to_end.set, managed),
                Reloader(managed, watched, asked_to_end.set, as_json=as_json),
            ):
                ending = asyncio.create_task(asked_to_end.wait())
                adding = asyncio.gather(*(_add(managed, spec, as_json, start=start_all) for spec in specs))
                either: set[asyncio.Future[Any]] = {ending, adding}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if adding.done():
                    adding.result()
                if adding.done() and not as_json:
                    _warn_duplicate_namespaces(host)
                    well = [name for name, plugin in host.plugins.items() if plugin.failure is None]
                    output.say(f"ready: {', '.join(well) or 'no plugin'}; Ctrl-C stops them")
                await ending
                adding.cancel()
                await asyncio.gather(adding, return_exceptions=True)
            await interrupt.close(host)
        await printing
    if not await asyncio.to_thread(out.finish):
        raise OSError(out.problem or "the output was closed")


async def _add(managed: control.ManagedPlugins, spec: PluginSpec, as_json: bool, *, start: bool) -> None:
    """Adds a plugin. A plugin that fails to start is reported and stays, to be reloaded; the others run on.

    Of a plugin root, only eager plugins start; a plugin named on the command line always starts.
    """
    try:
        plugin = await managed.add(spec)
        if not as_json:
            for lint in plugin.inspect()["lints"]:
                output.say(f"{plugin.name} lint: {lint}")
            if (may := _grants(plugin)) is not None:
                output.say(f"{plugin.name} may: {may}")
        if start or plugin.eager:
            await plugin.start()
        if plugin.failure is not None:
            output.failure(plugin.failure, as_json=as_json)
    except PluginError as error:
        output.failure(error, as_json=as_json)


def _grants(plugin: Plugin) -> str | None:
    """The capabilities of a plugin and, when sandboxed, its access, as text; None when there is nothing to
    show."""
    words = sorted(map(str, plugin.capabilities))
    if plugin.sandbox == "none":
        return ", ".join(words) or None
    if plugin.confinement is None:
        return None
    access = plugin.confinement.access
    words += [f"{kind} {item}" for kind in KINDS for item in getattr(access, kind)]
    return f"{', '.join(words) or 'access only its own code and scratch folder'} ({plugin.sandbox})"


def _warn_unsandboxed(specs: Sequence[PluginSpec]) -> None:
    """Warns of unsandboxed plugins, before anything runs, also with --json: nobody should find out later."""
    names = [spec.name for spec in specs if sandbox_class(spec, get_contract(spec.contract)) == "none"]
    if names:
        user = "root" if os.geteuid() == 0 else "your user"
        output.say(
            f"warning: running without a sandbox, with all rights of {user}: {', '.join(names)}. "
            f"{HOW} confines them."
        )


def _warn_duplicate_namespaces(host: Host) -> None:
    """Warns of CLI namespaces that two plugins provide; the first plugin by name has it."""
    owner: dict[str, str] = {}
    for name, plugin in sorted(host.plugins.items()):
        for word in plugin.provides.get("cli_namespaces", ()):
            if owner.setdefault(word, name) != name:
                output.say(f"warning: {owner[word]} and {name} both provide {word!r}; {owner[word]} is used")


async def _print_events(events: Subscription, out: LineWriter, as_json: bool) -> None:
    async for event in events:
        if isinstance(event, CatalogueChanged):
            continue  # `plughost methods` shows what can be called
        if as_json:
            out.tell(output.json_line(event))
        elif not is_repetition(event):
            first, *more = event_text(event)
            out.tell(output.text_lines(f"{event.plugin}#{event.generation} {first}", *more))
