"""ControlClient: the client of a running host, for another program of the same user."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import msgspec

from plughost.catalogue import CatalogueEntry
from plughost.contracts.plugin_calls import CallOptions
from plughost.control.credentials import OWNERS, peer_user
from plughost.control.errors import ControlRefused, HostLost, from_report
from plughost.control.messages import MAX_LINE, NONE, ControlAnswer, ControlRequest, decode_answer
from plughost.control.remote_plugin import RemotePlugin
from plughost.control.sockets import is_listening
from plughost.engine.progress import OnEvent
from plughost.errors import InvalidSpec, Overloaded, PluginError, Stopped
from plughost.wire.messages import ABSENT, decode, encode

LONGEST = 1e9
"""Seconds of a call without a timeout: about 30 years."""
MAX_UNREAD = 100_000
"""Log lines or states that wait to be read; with more, following them fails."""

T = TypeVar("T")


class _OpenRequest:
    """A request without its last answer."""

    __slots__ = ("on_event", "result")

    def __init__(self, on_event: OnEvent | None) -> None:
        self.on_event = on_event
        self.result: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()


class ControlClient:
    """A connection to a running host: `async with ControlClient(path) as client`. Any number of tasks may
    use it at a time.

    The errors of plugins are raised as `Plugin.call` raises them. When the host stops, every open request
    fails with Stopped; when it is killed, with HostLost. Every later request fails with HostLost.
    """

    def __init__(self, path: Path | str) -> None:
        """`path` is the socket of the host: `plughost.control.hosts` lists those of this user."""
        self.path = Path(path)
        self._open: dict[int, _OpenRequest] = {}
        self._last_id = 0
        self._lost: PluginError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_answered = False

    async def __aenter__(self) -> Self:
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(str(self.path), limit=MAX_LINE)
        except PermissionError as error:
            raise ControlRefused(
                f"no access to the host at {self.path}: {error.strerror}", hint=OWNERS
            ) from error
        except OSError as error:
            raise HostLost(f"no host answers at {self.path}: {error.strerror or error}") from error
        self._check_owner()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_owner(self) -> None:
        """Say nothing to the host of another user: it would refuse us, and might not be a host at all."""
        owner = peer_user(self._writer.get_extra_info("socket"))
        if os.geteuid() not in (owner, 0):
            self._writer.close()
            raise ControlRefused(
                f"the host at {self.path} belongs to user {owner}, and this is user {os.geteuid()}",
                hint=OWNERS,
            )

    async def close(self) -> None:
        """Close the connection. The host cancels the calls that are still open."""
        if self._reading is None:
            return
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._lose(HostLost("this client is closed"))
        self._writer.close()

    @overload
    async def call(
        self,
        plugin: str,
        method: str,
        params: Any = ...,
        *,
        type: type[T],
        **options: Unpack[CallOptions],
    ) -> T: ...

    @overload
    async def call(
        self,
        plugin: str,
        method: str,
        params: Any = ...,
        *,
        type: Any = ...,
        **options: Unpack[CallOptions],
    ) -> Any: ...

    async def call(
        self,
        plugin: str,
        method: str,
        params: Any = ABSENT,
        *,
        timeout: float | None = None,
        context: Mapping[str, str] | None = None,
        type: Any = Any,
        on_event: OnEvent | None = None,
        priority: bool = False,
    ) -> Any:
        """Call a method of a plugin and return its result, decoded as `type`. The arguments are those of
        `Plugin.call`. If the task is cancelled, so is the call. Of one method of a plugin, the host makes one
        call with `priority` at a time."""
        request = ControlRequest(
            "call",
            plugin=plugin,
            method=method,
            timeout=None if timeout is None else min(timeout, LONGEST),
            context=None if context is None else dict(context),
            progress=on_event is not None,
            priority=priority,
            params=_encoded(params, f"the call of {method!r}", plugin),
        )
        if not all(isinstance(word, str) for pair in (request.context or {}).items() for word in pair):
            raise InvalidSpec("the names and values in the context of a call must be text", plugin=plugin)
        if timeout is not None and math.isnan(timeout):
            raise InvalidSpec("the timeout is not a number of seconds", plugin=plugin)
        result = await self._ask(request, on_event)
        return result if type is msgspec.Raw else decode(result, kind=type)

    async def notify(self, plugin: str, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Send a notification to a plugin, with `urgent` before everything that waits to be sent. False if
        the plugin is not running. Notifications arrive in the order in which they were sent."""
        what = _encoded(params, f"the notification {method!r}", plugin)
        request = ControlRequest("notify", plugin=plugin, method=method, params=what, urgent=urgent)
        return bool((await self._ask_document(request))["sent"])

    def plugin(self, name: str) -> RemotePlugin:
        """The plugin of that name, for the typed client of its contract."""
        return RemotePlugin(self, name)

    async def ps(self, *, usage: bool = True) -> dict[str, Any]:
        """The process id of the host, and all its plugins with what is measured of them; with `usage` also
        their memory and processor time."""
        return await self._ask_document(ControlRequest("ps", usage=usage))

    async def inspect(self, plugin: str) -> dict[str, Any]:
        """One plugin: spec, state, lifecycle settings, instances, what is measured of it."""
        return await self._ask_document(ControlRequest("inspect", plugin=plugin))

    async def methods(self, plugin: str | None = None) -> list[CatalogueEntry]:
        """What can be called of a plugin, or of all plugins; see `Host.catalogue`."""
        answer = await self._ask(ControlRequest("methods", plugin=plugin))
        return msgspec.json.decode(answer, type=list[CatalogueEntry])

    async def start(self, plugin: str) -> None:
        """Start a plugin, also one that was stopped or has failed, and wait until it is ready."""
        await self._ask(ControlRequest("start", plugin=plugin))

    async def restart(self, plugin: str) -> None:
        """Stop a plugin and start it again. Its open calls fail; calls that come meanwhile wait."""
        await self._ask(ControlRequest("restart", plugin=plugin))

    async def reload(self, plugin: str | None = None) -> dict[str, Any]:
        """Start a new generation of a plugin and move its calls over; without a name, read plughost.toml
        again and carry out what changed in it."""
        return await self._ask_document(ControlRequest("reload", plugin=plugin))

    async def stop(self, plugin: str | None = None) -> None:
        """Stop a plugin; without a name, the host with all its plugins."""
        await self._ask(ControlRequest("stop", plugin=plugin))

    def logs(
        self, plugin: str | None = None, *, follow: bool = False, since: float | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The log lines that the host has kept, oldest first; with `follow` also those that come. `since`
        leaves out lines that are older than that many seconds."""
        return self._stream(ControlRequest("logs", plugin=plugin, follow=follow, since=since))

    def watch(self, plugin: str) -> AsyncGenerator[dict[str, Any], None]:
        """The `state` of a plugin, and the `failure` that keeps it from running: now, and whenever they
        change. States in between may be left out, the last one never is."""
        return self._stream(ControlRequest("watch", plugin=plugin))

    async def pin(self, plugin: str) -> None:
        """Keep a plugin from being stopped for idleness until the task is cancelled."""
        await self._ask(ControlRequest("pin", plugin=plugin))

    async def _stream(self, request: ControlRequest) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a request."""
        unread: asyncio.Queue[msgspec.Raw | None] = asyncio.Queue()

        def keep(line: msgspec.Raw) -> None:
            if unread.qsize() >= MAX_UNREAD:
                raise Overloaded(f"{MAX_UNREAD} events of {request.do!r} were not read")
            unread.put_nowait(line)

        asking = asyncio.create_task(self._ask(request, keep))
        asking.add_done_callback(lambda _: unread.put_nowait(None))
        try:
            while (line := await unread.get()) is not None:
                yield msgspec.json.decode(line)
            await asking
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask_document(self, request: ControlRequest) -> dict[str, Any]:
        return msgspec.json.decode(await self._ask(request), type=dict[str, Any])

    async def _ask(self, request: ControlRequest, on_event: OnEvent | None = None) -> msgspec.Raw:
        if self._lost is not None:
            raise self._lost.copy()
        if self._reading is None:
            raise InvalidSpec("the client is not connected: use `async with ControlClient(path) as client`")
        self._last_id += 1
        number = request.id = self._last_id
        try:
            # Raw params may contain newlines, which are space outside of strings.
            line = msgspec.json.encode(request).replace(b"\n", b" ") + b"\n"
        except ValueError as error:
            raise InvalidSpec(f"the request cannot be sent: {error}", plugin=request.plugin or "") from error
        opened = self._open[number] = _OpenRequest(on_event)
        try:
            self._writer.write(line)
            await self._writer.drain()
        except OSError:
            pass  # the reader is about to find out, too, and knows what the host has said before
        try:
            return await opened.result
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            self._open.pop(number, None)

    def _cancel(self, number: int) -> None:
        if number in self._open and not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(ControlRequest("cancel", id=number)) + b"\n")

    async def _read(self) -> None:
        """Hand answers to those who wait for them, until the host closes the connection."""
        try:
            while line := await self._reader.readline():
                if not line.endswith(b"\n"):
                    break  # the host was killed while it wrote
                self._take(decode_answer(line))
            self._lose(self._ended())
        except OSError:
            self._lose(self._ended())
        except ValueError as error:
            self._lose(HostLost(f"the host at {self.path} sent something that is not an answer: {error}"))

    def _ended(self) -> HostLost:
        """The error for the end of the connection. A host sends no answer to a process that it refuses."""
        if self._is_answered or not is_listening(self.path):
            return HostLost(
                f"the host at {self.path} has ended", hint="`plughost ps` lists the running hosts"
            )
        return HostLost(
            f"the host at {self.path} closed the connection without an answer",
            hint="it has ended, or it refuses this process because this process is sandboxed (it has more "
            "seccomp filters than the host); `plughost ps` outside of the sandbox lists the running hosts",
        )

    def _take(self, answer: ControlAnswer) -> None:
        self._is_answered = True
        if answer.id is None:
            if answer.error is not None:
                error = from_report(answer.error)
                self._lose(error, later=self._ended() if isinstance(error, Stopped) else error)
            return
        opened = self._open.get(answer.id)
        if opened is None or opened.result.done():
            return  # it was cancelled
        if answer.error is not None:
            opened.result.set_exception(from_report(answer.error))
        elif bytes(answer.event):
            self._deliver(answer.id, opened, answer.event)
        else:
            opened.result.set_result(answer.result)

    def _deliver(self, number: int, opened: _OpenRequest, event: msgspec.Raw) -> None:
        if opened.on_event is None:
            return
        try:
            opened.on_event(event)
        except Exception as error:  # a bug in the caller's callback, so the caller gets the error
            self._cancel(number)
            opened.result.set_exception(error)

    def _lose(self, error: PluginError, later: PluginError | None = None) -> None:
        """No more answers come: every open request fails, and every later one with `later`."""
        if self._lost is None:
            self._lost = later or error
        for opened in self._open.values():
            if not opened.result.done():
                opened.result.set_exception(error.copy())


def _encoded(params: Any, what: str, plugin: str) -> msgspec.Raw:
    """Params for a request; InvalidSpec if they are not JSON."""
    if params is ABSENT:
        return NONE
    try:
        return msgspec.Raw(encode(params))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"{what} cannot be sent: {error}", plugin=plugin) from error
