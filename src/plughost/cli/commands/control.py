"""`plughost ps`, `logs`, `reload`, `stop`: control hosts started by `plughost run`, over their sockets."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from plughost import control
from plughost.cli.ui import output
from plughost.errors import InvalidSpec, Timeout

ANSWER_TIMEOUT = 30.0
"""Seconds for a host to answer: a reload takes as long as the plugin's start."""

_folder = click.option(
    "--socket-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the hosts' control sockets.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _options(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def command(folder: Path | None, **given: Any) -> None:
        function(hosts=control.hosts(folder or control.default_folder()), **given)

    return _folder(_json(command))


@click.command()
@_options
def ps(hosts: list[Path], as_json: bool) -> None:
    """List the plugins of running hosts."""
    answers = [_ask_one(path, {"do": "ps"}) for path in hosts]
    if as_json:
        output.answer({"hosts": answers})
        return
    if not answers:
        output.say("no host is running: start one with `plughost run`")
        return
    heads = ("host", "plugin", "contract", "sandbox", "state", "generation", "pid", "in flight", "failures")
    rows, failed = [], []
    for answer in answers:
        for plugin in answer["plugins"]:
            newest = plugin["instances"][-1] if plugin["instances"] else {}
            cells = [newest.get(key, "") for key in ("pid", "in_flight", "failures")]
            row = [
                answer["pid"],
                plugin["name"],
                plugin["contract"],
                plugin["sandbox"],
                plugin["state"],
                plugin["generation"],
                *cells,
            ]
            rows.append(["" if cell is None else str(cell) for cell in row])
            if (failure := plugin.get("failure")) is not None:
                failed.append(f"{plugin['name']}: {failure['code']}: {failure['message']}")
                failed += [f"  hint: {failure['hint']}"] if failure["hint"] else []
    output.table(rows, heads)
    if failed:
        output.print_line("", *failed)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.argument("plugin", required=False)
@_options
def logs(hosts: list[Path], plugin: str | None, follow: bool, as_json: bool) -> None:
    """Show what plugins logged and wrote to stderr.

    Without PLUGIN, that of all plugins.
    """
    if plugin is not None:
        hosts = [_host_of(hosts, plugin)]
    if follow and len(hosts) > 1:
        raise click.UsageError("several hosts are running: name the plugin to follow")
    for path in hosts:
        for line in _ask(path, {"do": "logs", "plugin": plugin, "follow": follow}):
            if as_json:
                output.answer(line)
            else:
                fields = f" {msgspec.json.encode(line['fields']).decode()}" if line.get("fields") else ""
                source = line.get("source", "log")
                where = "" if source == "log" else f" ({source})"
                output.print_line(f"{line['plugin']} {line['level']}{where}: {line['message']}{fields}")


@click.command()
@click.argument("plugin")
@_options
def reload(hosts: list[Path], plugin: str, as_json: bool) -> None:
    """Replace a plugin's process by a new one without failing calls."""
    _done(_ask_one(_host_of(hosts, plugin), {"do": "reload", "plugin": plugin}), as_json)


@click.command()
@click.argument("plugin", required=False)
@click.option("--all", "everything", is_flag=True, help="Stop all running hosts and their plugins.")
@_options
def stop(hosts: list[Path], plugin: str | None, everything: bool, as_json: bool) -> None:
    """Stop a plugin, or with --all every running host."""
    if everything == (plugin is not None):
        raise click.UsageError("name a plugin, or give --all")
    if plugin is not None:
        _done(_ask_one(_host_of(hosts, plugin), {"do": "stop", "plugin": plugin}), as_json)
        return
    for path in hosts:
        _done(_ask_one(path, {"do": "stop"}), as_json)


def _done(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        output.answer(answer)


def _host_of(hosts: list[Path], plugin: str) -> Path:
    """The one host that runs the plugin."""
    found = [
        path
        for path in hosts
        if any(each["name"] == plugin for each in _ask_one(path, {"do": "ps"})["plugins"])
    ]
    if len(found) != 1:
        raise InvalidSpec(
            f"{len(found) or 'no'} running {'hosts have' if found else 'host has'} a plugin of that name",
            plugin=plugin,
            hint="`plughost ps` lists what is running",
        )
    return found[0]


def _ask_one(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    for answer in _ask(path, request):
        if "error" in answer:
            error = answer["error"]
            raise control.ControlRefused(
                error["message"], code=error["code"], plugin=error["plugin"], hint=error["hint"]
            )
        return answer
    raise InvalidSpec(f"the host at {path} gave no answer")


def _ask(path: Path, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if not request.get("follow"):
            connection.settimeout(ANSWER_TIMEOUT)
        try:
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as answers:
                for line in answers:
                    yield msgspec.json.decode(line)
        except OSError as error:
            raise Timeout(f"the host at {path} does not answer: {error}") from error
