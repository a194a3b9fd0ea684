"""The control socket of a running host, a unix socket: list its plugins (`ps`), show logs, reload, stop.

Each connection carries one request and its answers, each a line of JSON. Only the same user and root get an
answer.
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

from plughost._util.temp_dir import shared_temp_dir
from plughost._util.text import encoded_json
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import sandbox_class
from plughost.errors import InvalidSpec, PluginError
from plughost.events import Logged
from plughost.events import Subscription as EventQueue
from plughost.host import Host
from plughost.spec import PluginSpec

MAX_REQUEST = 1 << 16
"""Bytes of a request."""
REQUEST_TIMEOUT = 5.0
"""Seconds for a request to arrive after its connection."""


class ControlRefused(PluginError):
    """Raised in the client when the running host answered a request with an error; `code` is the host's
    code."""

    def __init__(self, message: str, *, code: str = "refused", **context: Any) -> None:
        super().__init__(message, **context)
        self.code = code  # type: ignore[misc]  # the host's own


class ControlRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request to a running host: `do` is ps, logs, reload or stop; `follow` is for logs."""

    do: str
    plugin: str | None = None
    follow: bool = False


def default_folder() -> Path:
    """The folder with the control sockets of this user's hosts."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return (
        Path(base, "plughost") if os.path.isabs(base) else Path(shared_temp_dir(), f"plughost-{os.getuid()}")
    )


def hosts(folder: Path) -> list[Path]:
    """The sockets of all running hosts in `folder`. Removes stale sockets that killed hosts left behind."""
    _check_private(folder)
    return [path for path in sorted(folder.glob("*.sock")) if _is_alive(path)]


class Control:
    """The control server of a host: `async with Control(host, folder, on_stop)` answers while it is open."""

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
        # Hosts in containers that share the folder may have the same process id.
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock"

    async def __aenter__(self) -> Self:
        hosts(self.path.parent)
        # It listens before it gets its name, so that nobody sees a socket that looks stale.
        # The temporary name is as long as the final one, so that a path that is too long fails here.
        temporary = self.path.with_suffix(".made")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(temporary))
            listening.listen()
            temporary.replace(self.path)
        except OSError as error:
            listening.close()
            temporary.unlink(missing_ok=True)
            why = error.strerror or str(error)  # the error for a path that is too long has no errno
            raise InvalidSpec(f"cannot listen on {self.path}: {why}") from error
        self._serving: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MAX_REQUEST)
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
        """Serve a connection in a task. The callback closes it, because a task cancelled early never runs."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _peer_uid(writer) in (os.geteuid(), 0):
                await self._answer(await _read_request(reader), reader, writer)
        except PluginError as error:
            _write_line(writer, {"error": error.report()})
        except (TimeoutError, OSError, asyncio.CancelledError):
            pass  # the client sent nothing in time or disconnected, or the host is closing

    async def _answer(
        self, request: ControlRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._dispatch(request, reader, writer)
        await writer.drain()

    async def _dispatch(
        self, request: ControlRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if request.do == "ps":
            _write_line(writer, {"pid": os.getpid(), "plugins": self._plugins()})
        elif request.do == "logs":
            await self._logs(request, reader, writer)
        elif request.do == "stop" and request.plugin is None:
            _write_line(writer, {"done": "stop"})
            self._on_stop()
        elif request.do == "reload" and request.plugin in self._failed:
            await self._add_again(request.plugin)
            _write_line(writer, {"done": request.do, "plugin": request.plugin})
        elif request.do in ("reload", "stop"):
            plugin = self._host.plugins.get(request.plugin or "")
            if plugin is None:
                raise InvalidSpec(f"there is no plugin {request.plugin!r} here")
            await (plugin.reload() if request.do == "reload" else self._host.remove(plugin.name))
            _write_line(writer, {"done": request.do, "plugin": plugin.name})
        else:
            raise InvalidSpec(f"unknown request {request.do!r}")

    def _plugins(self) -> list[dict[str, Any]]:
        """All plugins, sorted by name: they are added concurrently, so the order of arrival means nothing."""
        added = [each.inspect() for each in self._host.plugins.values()]
        failed = [_inspect_failed(spec, error) for spec, error in self._failed.values()]
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
        self, request: ControlRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        wanted = [request.plugin] if request.plugin is not None else [*self._host.plugins]
        with self._host.events() as events:
            logs = self._host.service("logs")
            for line in sorted(
                (line for name in wanted for line in logs.recent(name)), key=lambda line: line.at
            ):
                _write_line(writer, line)
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
                _write_line(writer, event)
                await writer.drain()


def _inspect_failed(spec: PluginSpec, error: PluginError) -> dict[str, Any]:
    """A plugin that could not be added, in the format of `Plugin.inspect`."""
    return {
        "name": spec.name,
        "contract": spec.contract,
        "sandbox": sandbox_class(spec, get_contract(spec.contract)),
        "state": "NotAdded",
        "failure": error.report(),
        "generation": 0,
        "instances": [],
    }


async def _read_request(reader: asyncio.StreamReader) -> ControlRequest:
    async with asyncio.timeout(REQUEST_TIMEOUT):
        try:
            line = await reader.readline()
            return msgspec.json.decode(line, type=ControlRequest)
        except ValueError as error:  # too long, not JSON, or not a ControlRequest
            raise InvalidSpec(f"not a request: {error}") from error


def _write_line(writer: asyncio.StreamWriter, document: Any) -> None:
    writer.write(encoded_json(document) + b"\n")


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    """The user id of the client, from the kernel (SO_PEERCRED)."""
    connection = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(user)


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(REQUEST_TIMEOUT)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody listens any more
            path.unlink(missing_ok=True)
            return False
        except OSError:
            return False
    return True


def _check_private(folder: Path) -> None:
    """Create the folder; InvalidSpec if another user could put a socket there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise InvalidSpec(
            f"{folder} is not this user's own folder", hint="set XDG_RUNTIME_DIR, or use --socket-dir"
        )
