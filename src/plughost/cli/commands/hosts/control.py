"""`plughost start`, `restart`, `reload`, `stop`: control the plugins of hosts started by `plughost run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from plughost import interrupt
from plughost.cli.options import running
from plughost.cli.ui import output
from plughost.control import ControlClient

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.argument("plugin")
@_json
@running.hosts
def start(choice: running.HostChoice, plugin: str, as_json: bool) -> None:
    """Start a plugin of a running host and wait until it is ready.

    Also starts a plugin that was stopped or has failed.
    """
    path = choice.the_host_of(plugin).path
    _do(path, lambda client: client.start(plugin), {"done": "start", "plugin": plugin}, as_json)


@click.command()
@click.argument("plugin")
@_json
@running.hosts
def restart(choice: running.HostChoice, plugin: str, as_json: bool) -> None:
    """Stop a plugin and start it again.

    Open calls fail; calls made during the restart wait.
    """
    path = choice.the_host_of(plugin).path
    _do(path, lambda client: client.restart(plugin), {"done": "restart", "plugin": plugin}, as_json)


@click.command()
@click.argument("plugin", required=False)
@_json
@running.hosts
def reload(choice: running.HostChoice, plugin: str | None, as_json: bool) -> None:
    """Replace a plugin's process without a failed call.

    Without PLUGIN, plughost.toml is read again and its changes are applied.
    """
    if plugin is not None:
        path = choice.the_host_of(plugin).path
        _do(path, lambda client: client.reload(plugin), {"done": "reload", "plugin": plugin}, as_json)
        return
    host = choice.one(interrupt.run(choice.look()), "a configuration")
    if host is None:
        output.say("no host is running: start one with `plughost run`")
        return
    did = _do(host.path, lambda client: client.reload(), None, as_json)
    if not as_json:
        for what in ("added", "changed", "removed"):
            if did[what]:
                output.print_line(f"{what}: {', '.join(sorted(did[what]))}")
        for name, why in sorted(did["failed"].items()):
            output.say(f"{name}: {why}")


@click.command()
@click.argument("plugin", required=False)
@click.option("--all", "everything", is_flag=True, help="Stop all running hosts and their plugins.")
@_json
@running.hosts
def stop(choice: running.HostChoice, plugin: str | None, everything: bool, as_json: bool) -> None:
    """Stop a plugin, or with --all every running host."""
    if everything == (plugin is not None):
        raise click.UsageError("name a plugin, or give --all")
    if plugin is not None:
        path = choice.the_host_of(plugin).path
        _do(path, lambda client: client.stop(plugin), {"done": "stop", "plugin": plugin}, as_json)
        return
    for path in choice.sockets():
        _do(path, lambda client: client.stop(), {"done": "stop"}, as_json)


def _do(
    path: Path, what: Callable[[ControlClient], Awaitable[Any]], done: dict[str, Any] | None, as_json: bool
) -> Any:
    async def ask() -> Any:
        async with ControlClient(path) as client:
            return await what(client)

    result = interrupt.run(ask())
    if as_json:
        output.answer(result if done is None else done)
    return result
