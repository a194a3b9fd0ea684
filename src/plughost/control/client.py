"""ControlClient: the client of a running host, for another program of the same user."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

import msgspec

from plughost.contracts.plugin_calls import CallOptions
from plughost.control.errors import HostLost, from_report
from plughost.control.messages import MAX_LINE, ControlAnswer, ControlRequest, decode_answer
from plughost.engine.progress import OnEvent
from plughost.errors import InvalidSpec, Overloaded, PluginError
from plughost.wire.messages import ABSENT, decode, encode

LONGEST = 1e9
"""Seconds of a call without a timeout: about 30 years."""
MAX_LINES = 100_000
"""Log lines that wait to be read; with more, following them fails."""

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

    The errors of plugins are raised as `Plugin.call` raises them. When the host ends, every open request
    fails with HostLost at once.
    """

    def __init__(self, path: Path | str) -> None:
        """`path` is the socket of the host: `plughost.control.hosts` lists those of this user."""
        self.path = Path(path)
        self._open: dict[int, _OpenRequest] = {}
        self._last_id = 0
        self._lost: PluginError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(str(self.path), limit=MAX_LINE)
        except OSError as error:
            raise HostLost(f"no host answers at {self.path}: {error.strerror or error}") from error
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
    ) -> Any:
        """Call a method of a plugin and return its result, decoded as `type`. The arguments are those of
        `Plugin.call`. If the task is cancelled, so is the call."""
        request = ControlRequest(
            "call",
            plugin=plugin,
            method=method,
            timeout=None if timeout is None else min(timeout, LONGEST),
            context=None if context is None else dict(context),
            progress=on_event is not None,
        )
        if timeout is not None and math.isnan(timeout):
            raise InvalidSpec("the timeout is not a number of seconds", plugin=plugin)
        if params is not ABSENT:
            try:
                request.params = msgspec.Raw(encode(params))
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidSpec(f"the call of {method!r} cannot be sent: {error}", plugin=plugin) from error
        result = await self._ask(request, on_event)
        return result if type is msgspec.Raw else decode(result, kind=type)

    def plugin(self, name: str) -> RemotePlugin:
        """The plugin of that name, with a method `call` like that of `plughost.Plugin`."""
        return RemotePlugin(self, name)

    async def ps(self, *, usage: bool = True) -> dict[str, Any]:
        """The process id of the host, and all its plugins with what is measured of them; with `usage` also
        their memory and processor time."""
        return await self._ask_document(ControlRequest("ps", usage=usage))

    async def inspect(self, plugin: str) -> dict[str, Any]:
        """One plugin: spec, state, lifecycle settings, instances, what is measured of it."""
        return await self._ask_document(ControlRequest("inspect", plugin=plugin))

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

    async def logs(
        self, plugin: str | None = None, *, follow: bool = False, since: float | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The log lines that the host has kept, oldest first; with `follow` also those that come. `since`
        leaves out lines that are older than that many seconds."""
        lines: asyncio.Queue[msgspec.Raw | None] = asyncio.Queue()

        def keep(line: msgspec.Raw) -> None:
            if lines.qsize() >= MAX_LINES:
                raise Overloaded(f"{MAX_LINES} log lines were not read")
            lines.put_nowait(line)

        request = ControlRequest("logs", plugin=plugin, follow=follow, since=since)
        asking = asyncio.create_task(self._ask(request, keep))
        asking.add_done_callback(lambda _: lines.put_nowait(None))
        try:
            while (line := await lines.get()) is not None:
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
            self._lose(
                HostLost(f"the host at {self.path} has ended", hint="`plughost ps` lists the running hosts")
            )
        except OSError as error:
            self._lose(HostLost(f"the host at {self.path} has ended: {error.strerror or error}"))
        except ValueError as error:
            self._lose(HostLost(f"the host at {self.path} sent something that is not an answer: {error}"))

    def _take(self, answer: ControlAnswer) -> None:
        if answer.id is None:
            if answer.error is not None:
                self._lose(from_report(answer.error))
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

    def _lose(self, error: PluginError) -> None:
        """No more answers come: every open request fails."""
        if self._lost is None:
            self._lost = error
        for opened in self._open.values():
            if not opened.result.done():
                opened.result.set_exception(self._lost.copy())


class RemotePlugin:
    """A plugin of a running host, for the typed clients of contracts that only make calls."""

    def __init__(self, client: ControlClient, name: str) -> None:
        self._client = client
        self.name = name

    async def call(
        self, method: str, params: Any = ABSENT, *, type: Any = Any, **options: Unpack[CallOptions]
    ) -> Any:
        """`ControlClient.call` of this plugin."""
        return await self._client.call(self.name, method, params, type=type, **options)
