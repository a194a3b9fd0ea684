"""A running host on a unix socket: who is there, what they log, reload this, stop that.

One request and its answers a connection, each a line of JSON. Only the same user is answered, and root.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import stat
import struct
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from plughost.base.errors import InvalidSpec, PluginError
from plughost.base.events import Logged
from plughost.base.events import Subscription as EventQueue
from plughost.base.temporary import everybodys_folder
from plughost.base.text import encoded_json
from plughost.contracts.contract import PluginSpec, contract, sandbox_of
from plughost.host import Host

LONGEST = 1 << 16
PATIENCE = 5.0
"""For a request to come, once somebody has connected."""


class Refused(PluginError):
    """What a running host answered instead."""

    def __init__(self, message: str, *, code: str = "refused", **context: Any) -> None:
        super().__init__(message, **context)
        self.code = code  # type: ignore[misc]  # the host's own


class Request(msgspec.Struct, forbid_unknown_fields=True):
    do: str
    plugin: str | None = None
    follow: bool = False


def default_folder() -> Path:
    """Where the sockets of this user's hosts are."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return (
        Path(base, "plughost")
        if os.path.isabs(base)
        else Path(everybodys_folder(), f"plughost-{os.getuid()}")
    )


def hosts(folder: Path) -> list[Path]:
    """The sockets of hosts that live; what a killed host left behind is removed on the way."""
    _own(folder)
    return [path for path in sorted(folder.glob("*.sock")) if _alive(path)]


class Control:
    """`async with Control(host, folder, on_stop)`: answers as long as it is open."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        on_stop: Callable[[], None],
        failed: dict[str, tuple[PluginSpec, PluginError]] | None = None,
    ) -> None:
        """`failed` are the plugins that could not be added, and why. `ps` shows them, `reload` adds them."""
        self._host = host
        self._on_stop = on_stop
        self._failed = {} if failed is None else failed
        # In containers that share the folder, hosts have the same number.
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock"

    async def __aenter__(self) -> Self:
        hosts(self.path.parent)
        # Listening before it has its name: whoever sees it can connect, and does not take it for a leftover.
        fresh = self.path.with_suffix(".made")  # as long as its name, so that this fails if that is too long
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(fresh))
            listening.listen()
            fresh.replace(self.path)
        except OSError as error:
            listening.close()
            fresh.unlink(missing_ok=True)
            why = error.strerror or str(error)  # a path that is too long has no number
            raise InvalidSpec(f"cannot listen on {self.path}: {why}") from error
        self._serving: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=LONGEST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.unlink(missing_ok=True)
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, and close it in any case: a task that is cancelled early never begins."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _peer(writer) in (os.geteuid(), 0):
                await self._answer(await _request(reader), reader, writer)
        except PluginError as error:
            _say(writer, {"error": error.report()})
        except (TimeoutError, OSError, asyncio.CancelledError):
            pass  # it said nothing in time, or has gone, or the host ends

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._do(request, reader, writer)
        await writer.drain()

    async def _do(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.do == "ps":
            _say(writer, {"pid": os.getpid(), "plugins": self._plugins()})
        elif request.do == "logs":
            await self._logs(request, reader, writer)
        elif request.do == "stop" and request.plugin is None:
            _say(writer, {"done": "stop"})
            self._on_stop()
        elif request.do == "reload" and request.plugin in self._failed:
            await self._add_again(request.plugin)
            _say(writer, {"done": request.do, "plugin": request.plugin})
        elif request.do in ("reload", "stop"):
            plugin = self._host.plugins.get(request.plugin or "")
            if plugin is None:
                raise InvalidSpec(f"there is no plugin {request.plugin!r} here")
            await (plugin.reload() if request.do == "reload" else self._host.remove(plugin.name))
            _say(writer, {"done": request.do, "plugin": plugin.name})
        else:
            raise InvalidSpec(f"unknown request {request.do!r}")

    def _plugins(self) -> list[dict[str, Any]]:
        """Every plugin, by name: they are added side by side, so the order they came in means nothing."""
        added = [each.inspect() for each in self._host.plugins.values()]
        failed = [_not_added(spec, error) for spec, error in self._failed.values()]
        return sorted([*added, *failed], key=itemgetter("name"))

    async def _add_again(self, name: str) -> None:
        spec, _ = self._failed.pop(name)
        try:
            await (await self._host.add(spec, start=False, keep=True)).start()
        except PluginError as error:
            if name not in self._host.plugins:
                self._failed[name] = spec, error
            raise

    async def _logs(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wanted = [request.plugin] if request.plugin is not None else [*self._host.plugins]
        with self._host.events() as events:
            logs = self._host.service("logs")
            for line in sorted(
                (line for name in wanted for line in logs.recent(name)), key=lambda line: line.at
            ):
                _say(writer, line)
                await writer.drain()
            if request.follow:
                following = asyncio.create_task(self._follow(request.plugin, events, writer))
                gone = asyncio.create_task(reader.read())
                await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
                for task in (following, gone):
                    task.cancel()
                await asyncio.gather(following, gone, return_exceptions=True)

    async def _follow(self, plugin: str | None, events: EventQueue, writer: asyncio.StreamWriter) -> None:
        async for event in events:
            if isinstance(event, Logged) and plugin in (None, event.plugin):
                _say(writer, event)
                await writer.drain()


def _not_added(spec: PluginSpec, error: PluginError) -> dict[str, Any]:
    """A plugin that is not there, in the words of `Plugin.inspect`."""
    return {
        "name": spec.name,
        "contract": spec.contract,
        "sandbox": sandbox_of(spec, contract(spec.contract)),
        "state": "NotAdded",
        "failure": error.report(),
        "generation": 0,
        "instances": [],
    }


async def _request(reader: asyncio.StreamReader) -> Request:
    async with asyncio.timeout(PATIENCE):
        try:
            line = await reader.readline()
            return msgspec.json.decode(line, type=Request)
        except ValueError as error:  # too long, no JSON, or no request
            raise InvalidSpec(f"not a request: {error}") from error


def _say(writer: asyncio.StreamWriter, document: Any) -> None:
    writer.write(encoded_json(document) + b"\n")


def _peer(writer: asyncio.StreamWriter) -> int:
    """The user at the other end, by the kernel's word."""
    connection = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def _alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody listens any more
            path.unlink(missing_ok=True)
            return False
        except OSError:
            return False
    return True


def _own(folder: Path) -> None:
    """Make sure that nobody else can put a socket of theirs there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise InvalidSpec(
            f"{folder} is not this user's own folder", hint="set XDG_RUNTIME_DIR, or use --socket-dir"
        )
