"""`plughost x`: runs a plugin's command line as if it were a program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from plughost import interrupt
from plughost._util.nearest import did_you_mean
from plughost.cli.options import plugin_roots, running, targets
from plughost.cli.ui import output
from plughost.contracts.ainb.client import run_command_line
from plughost.contracts.ainb.contract import Ainb, CliResult
from plughost.control import ControlClient
from plughost.errors import PluginError
from plughost.host import Host
from plughost.spec import PluginSpec


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@plugin_roots.option
@targets.adjusting
@running.hosts_or_new
@click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[FOLDER] NAMESPACE [ARGS]..."
)
def x(root: Path | None, words: tuple[str, ...], target: targets.Target, choice: running.HostChoice) -> None:
    """Run a command line that a plugin provides.

    NAMESPACE selects the plugin and ARGS go to it unchanged. Its output and its exit code are passed on.

    If `plughost run` runs the plugin, that process is used. Otherwise a process is started. A folder,
    --root, -c and options that adjust the plugin always start a new process.

    \b
    Examples:
      plughost x usage --json
      plughost x --root dist/plugins usage --help
    """
    notes: list[str] = []
    """Printed only if the command fails before the plugin answers: otherwise stderr is the plugin's."""
    try:
        name = None if root is not None else target.running_name(words)
        found = _find_running(choice, name)
        if found is not None:
            _finish(interrupt.run(_run_there(found[0].path, found[1], words[0], words[1:])))
        specs, rest = plugin_roots.take(root, words, target, notes.append)
        namespace, *argv = rest
        spec = plugin_roots.find_provider(specs, "cli_namespaces", namespace, notes.append)
        if spec is None:
            known = did_you_mean(namespace, plugin_roots.offered(specs, "cli_namespaces"))
            raise click.UsageError(f"no plugin provides {namespace!r}{known}")
        result = interrupt.run(_dispatch(specs, spec, namespace, argv, notes))
    except (PluginError, click.UsageError):
        for note in notes:
            output.say(note)
        raise
    _finish(result)


def _find_running(choice: running.HostChoice, namespace: str | None) -> tuple[running.FoundHost, str] | None:
    """The running host with a plugin that provides the namespace, and the name of the first such plugin."""
    if namespace is None or choice.new:
        running.find_named(choice, None)
        return None
    hosts = interrupt.run(choice.look()) if choice.sockets() else []
    found = choice.one([host for host in hosts if _providers(host, namespace)], f"a plugin for {namespace!r}")
    return None if found is None else (found, _providers(found, namespace)[0])


def _providers(host: running.FoundHost, namespace: str) -> list[str]:
    return [
        plugin["name"]
        for plugin in host.plugins
        if namespace in plugin.get("provides", {}).get("cli_namespaces", ())
    ]


async def _run_there(path: Path, plugin: str, namespace: str, argv: Sequence[str]) -> CliResult:
    async with ControlClient(path) as client:
        return await run_command_line(client.plugin(plugin), namespace, argv)


def _finish(result: CliResult) -> NoReturn:
    output.write(sys.stderr.buffer, result.stderr)
    output.write(sys.stdout.buffer, result.stdout)
    sys.exit(_exit_code(result.exit_code))


def _exit_code(code: int) -> int:
    """The exit code as the system keeps it, its last eight bits, except that a failure never becomes 0."""
    return code & 0xFF or (1 if code else 0)


async def _dispatch(
    specs: Sequence[PluginSpec], chosen: PluginSpec, namespace: str, argv: list[str], notes: list[str]
) -> CliResult:
    async with Host(max_grace=interrupt.ONE_SHOT_GRACE) as host:
        plugin = await host.add(chosen)
        # Plugins that it may need, as publishers or for their actions; their start is not awaited.
        neighbours = [spec for spec in specs if spec is not chosen and spec.contract == chosen.contract]
        others = [asyncio.create_task(_add(host, spec, notes)) for spec in neighbours]
        try:
            return await Ainb(plugin).cli(namespace, argv)
        finally:
            for task in others:
                task.cancel()


async def _add(host: Host, spec: PluginSpec, notes: list[str]) -> None:
    try:
        await host.add(spec)
    except PluginError as error:
        notes.append(f"skipped: {error}")
