"""A contract from outside the package whose plugins are not processes: each call is an HTTP request of its own.

One call can fail by itself, and is cancelled by closing its own connection. Like `parley`, it uses nothing of
plughost that any other outside contract could not use, and edits nothing of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from plughost import Crashed
from plughost.contract import (
    BaseContract,
    BaseLink,
    BaseService,
    HostMethod,
    JsonRpc,
    LifecyclePolicy,
    Lines,
    LinkCallbacks,
    Notification,
    PluginSpec,
    Reply,
    Request,
    ResolvedSpec,
    ServiceContext,
    read_options,
)

MAX_LINE = 1 << 20


class HttpLink(BaseLink):
    """The link, and the channel, too: a connection per call."""

    def __init__(self, url: str, callbacks: LinkCallbacks) -> None:
        where = urlsplit(url)
        self._address = where.hostname, where.port
        self._path = where.path or "/"
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._exchanges: dict[int, asyncio.Task[None]] = {}
        self._notices: set[asyncio.Task[None]] = set()
        self.channel = self
        self.alive = True
        self.buffered = 0
        self.read_size = 0
        self.reads_in_callbacks = False
        self._loop.call_soon(callbacks.on_open, None)

    def send(self, number: int, method: str, frame: bytes, *, alone: bool, priority: bool) -> None:
        self._exchanges[number] = self._loop.create_task(self._exchange(number, frame))

    def abort(self, number: int) -> None:
        if (exchange := self._exchanges.pop(number, None)) is not None:
            exchange.cancel()

    def write(self, frame: bytes, *, urgent: bool = False) -> None:
        notice = self._loop.create_task(self._post(frame))
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _exchange(self, number: int, frame: bytes) -> None:
        try:
            await self._post(frame)
        except (OSError, EOFError, ValueError) as error:
            self._callbacks.on_call_failed(number, Crashed(f"its request failed: {error}"))
        finally:
            self._exchanges.pop(number, None)

    async def _post(self, frame: bytes) -> None:
        """Posts a message, and takes the lines that come back until the connection ends."""
        reader, writer = await asyncio.open_connection(*self._address, limit=MAX_LINE)
        try:
            head = f"POST {self._path} HTTP/1.1\r\nHost: {self._address[0]}\r\nContent-Length: {len(frame)}\r\n\r\n"
            writer.write(head.encode() + frame)
            status = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0]
            if b" 200 " not in status:
                raise ValueError(status.decode(errors="replace"))
            while line := await reader.readline():
                self._callbacks.on_data(line)
        finally:
            writer.close()

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            for task in [*self._exchanges.values(), *self._notices]:
                task.cancel()
            self._loop.call_soon(self._callbacks.on_exit)

    def close_write(self) -> None:
        self.kill()

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    def drain(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class Beacon(JsonRpc):
    """JSON-RPC in lines. A ping is answered by the session; a cancelled call is never answered."""

    answers_cancelled_calls = False

    def framing(self) -> Lines:
        return Lines(MAX_LINE)

    def encode_cancel(self, number: int, reason: str) -> bytes:
        return self.encode_notification("cancelled", {"id": number, "reason": reason})

    def on_request(self, request: Request) -> Request | Reply:
        return Reply(self.encode_response(request.id, {})) if request.method == "ping" else request

    def on_notification(self, notification: Notification) -> Notification | None:
        return None if notification.method == "keep-alive" else notification


class Places(BaseService):
    """The contract's own service."""

    async def list(self, caller: Any, params: dict[str, Any]) -> list[str]:
        return [caller.name, "home"]


def places(context: ServiceContext) -> Places:
    return Places()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    call_timeout: float = 10.0


class BeaconContract(BaseContract):
    name = "beacon"
    options: type[msgspec.Struct] = Options
    host_methods: Mapping[str, HostMethod] = {"places/list": HostMethod("places.list")}
    services: Mapping[str, Any] = {"places": places}
    needs_command = False
    resolves_without_files = True

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        options: Options = read_options(Options, spec)
        policy = LifecyclePolicy(call_timeout=options.call_timeout, respawn=True)
        return ResolvedSpec(policy, {}, open_link=functools.partial(HttpLink, options.url))

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> Beacon:
        return Beacon()


CONTRACT = BeaconContract()
