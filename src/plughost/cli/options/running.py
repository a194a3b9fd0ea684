"""The options that choose a running host: --host, --new and --socket-dir."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from plughost import control, interrupt
from plughost.cli.ui import output
from plughost.errors import InvalidSpec, PluginError, Timeout

ANSWER_TIMEOUT = 5.0
"""Seconds for a host to list its plugins."""

Command = Callable[..., None]

_FOLDER = click.option(
    "--socket-dir",
    "socket_dir",
    type=click.Path(path_type=Path, readable=False),  # what is wrong with it, `control.hosts` says
    help="Folder with the control sockets of hosts.",
)
_HOST = click.option(
    "--host", "host", metavar="PATH|PID", help="The running host to use: its process id, or its socket."
)
_NEW = click.option("--new", "new", is_flag=True, help="Ignore running hosts, even if one runs the plugin.")


class FoundHost(msgspec.Struct, frozen=True):
    """A running host, and its plugins as `plughost ps` describes them."""

    path: Path
    pid: int
    plugins: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.pid} ({self.path})"


class HostChoice:
    """The values of these options."""

    def __init__(self, folder: Path | None, host: str | None, *, new: bool = False) -> None:
        if host is not None and new:
            raise click.UsageError("--host uses a running host, --new does not: give one of them")
        self._folder = folder or control.default_folder()
        self.host = host
        self.new = new

    def sockets(self) -> list[Path]:
        """The sockets of the running hosts that are meant."""
        if self.host is None:
            return control.hosts(self._folder)
        if "/" in self.host:
            return [Path(self.host)]
        running = control.hosts(self._folder)
        found = [path for path in running if path.stem.split("-")[0] == self.host]
        if not found:
            known = ", ".join(path.stem.split("-")[0] for path in running) or "none"
            raise InvalidSpec(f"no host with the process id {self.host} is running; running hosts: {known}")
        return found

    async def look(self, *, usage: bool = False) -> list[FoundHost]:
        """All these hosts with their plugins. A host that does not answer is reported and left out."""
        asking = (_look(path, usage) for path in self.sockets())
        found = []
        for answer in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(answer, PluginError) and self.host is None:
                output.say(f"skipped: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append(answer)
        return found

    def one(self, found: Sequence[FoundHost], what: str) -> FoundHost | None:
        """The only one of the hosts that have `what`; None if there is none. InvalidSpec if there are
        several."""
        if len(found) > 1:
            hosts = ", ".join(map(str, found))
            raise InvalidSpec(
                f"{len(found)} running hosts have {what}: {hosts}", hint="choose one with --host PID"
            )
        return found[0] if found else None

    def find(self, plugin: str) -> FoundHost | None:
        """The running host that has the plugin; None if there is none, or none is wanted."""
        if self.new or not self.sockets():
            return None
        found = [
            host
            for host in interrupt.run(self.look())
            if any(each["name"] == plugin for each in host.plugins)
        ]
        if not found and self.host is not None:
            raise InvalidSpec(
                f"host {self.host} has no plugin {plugin!r}", hint="`plughost ps` lists plugins"
            )
        return self.one(found, f"a plugin {plugin!r}")

    def the_host_of(self, plugin: str) -> FoundHost:
        """The running host that has the plugin; InvalidSpec if there is none."""
        found = self.find(plugin)
        if found is None:
            raise InvalidSpec(
                "no running host has a plugin of that name",
                plugin=plugin,
                hint="`plughost ps` lists what is running",
            )
        return found


def hosts(function: Command) -> Command:
    """A decorator for commands that control running hosts; the command gets a `choice`."""

    @functools.wraps(function)
    def command(socket_dir: Path | None, host: str | None, **given: Any) -> None:
        function(choice=HostChoice(socket_dir, host), **given)

    return _FOLDER(_HOST(command))


def hosts_or_new(function: Command) -> Command:
    """A decorator for commands that use a running host or start a plugin; the command gets a `choice`."""

    @functools.wraps(function)
    def command(socket_dir: Path | None, host: str | None, new: bool, **given: Any) -> None:
        function(choice=HostChoice(socket_dir, host, new=new), **given)

    return _FOLDER(_HOST(_NEW(command)))


def find_named(choice: HostChoice, name: str | None) -> FoundHost | None:
    """The running host that has the plugin; None for a new process. `name` is None where the command line can
    mean only a new process."""
    if name is not None:
        return choice.find(name)
    if choice.host is not None:
        raise click.UsageError(
            "--host needs the name of a running plugin. It cannot be combined with a folder, a bare command, "
            "-c, --root, --record or options that adjust a plugin: they start a new process"
        )
    return None


async def _look(path: Path, usage: bool) -> FoundHost:
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT), control.ControlClient(path) as client:
            return msgspec.convert({"path": path, **await client.ps(usage=usage)}, FoundHost)
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"what listens at {path} is not a plughost host: {error}") from error
    except TimeoutError as error:
        raise Timeout(f"the host at {path} did not answer within {ANSWER_TIMEOUT:g} s") from error
