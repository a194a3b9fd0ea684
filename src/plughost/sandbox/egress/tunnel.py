"""A tunnel between a plugin and a server, in both directions. The end of one direction is passed on; the
other continues.

A connection that breaks on one side is reset on the other, too: nobody may take half an answer for a whole
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Callable

from plughost.sandbox.egress.client_hello import (
    ACCESS_DENIED,
    NotTLS,
    ServerHelloReader,
    SniFilter,
    SniMismatch,
)
from plughost.sandbox.egress.connection import EgressLimits
from plughost.sandbox.egress.late_client_hello import LateSniFilter
from plughost.sandbox.egress.pump import BUFFER, Pump, SourceBroken, TargetBroken

LINGER_SECONDS = 2.0
"""Time for a plugin to read its last bytes before its socket is closed."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TunnelResult(Exception):
    """The tunnel was cut, and why."""


class Tunnel:
    """`spend` is called with the number of bytes before they are passed on, and raises TunnelResult when
    there were too many."""

    def __init__(
        self, plugin: socket.socket, server: socket.socket, bounds: EgressLimits, spend: Callable[[int], None]
    ) -> None:
        self._plugin = plugin
        self._server = server
        self._bounds = bounds
        self._spend_of_all = spend
        self._up = Pump(plugin, server, self._spend)
        self._down = Pump(server, plugin, self._spend, self._heard)
        self._answer = ServerHelloReader()
        self._answered = asyncio.Event()
        self._server_deaf = False
        self._server_done = False

    @property
    def up(self) -> int:
        """Bytes from the plugin to the server."""
        return self._up.bytes

    @property
    def down(self) -> int:
        """Bytes from the server to the plugin."""
        return self._down.bytes

    async def run(self, early: bytes, opening: SniFilter | None) -> None:
        """Run until both sides are done. TunnelResult when it was cut; SniMismatch when TLS is opened to
        another name."""
        up = asyncio.create_task(self._upwards(early, opening))
        down = asyncio.create_task(self._downwards())
        try:
            await self._watch(up, down)
        except BaseException as error:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            speaks_tls = isinstance(error, SniMismatch) and not isinstance(error, NotTLS)
            if speaks_tls and (self._answer.asks_again or not self.down):
                with contextlib.suppress(OSError):
                    self._plugin.send(ACCESS_DENIED)
            raise
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)  # before their sockets are closed
        if self._server_deaf:
            await linger(self._plugin)

    async def _watch(self, *tasks: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        while waiting := [task for task in tasks if not task.done()]:
            bounds = self._bounds
            patience = bounds.idle_seconds if len(waiting) == len(tasks) else bounds.half_closed_seconds
            left = max(self._up.moved, self._down.moved) + patience - loop.time()
            if left <= 0:
                raise TunnelResult(f"no byte for {patience:g} s")
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _upwards(self, early: bytes, opening: SniFilter | None) -> None:
        late: LateSniFilter | None = None
        try:
            if opening is not None:
                early = await self._opened(early, opening)
                if opening.tls_only and early:
                    early = await self._greeted(early, opening)
                elif early:
                    late = LateSniFilter(opening.name)
                    self._up.screen = late.feed
            await self._up.run(early)
            if late is not None:
                late.end()
        except SourceBroken:
            raise TunnelResult("the plugin broke it off") from None
        except TargetBroken:  # earlier bytes of the server are still on their way
            self._server_deaf = True
            return
        if not self._server_done and _hung_up(self._plugin):
            raise TunnelResult("the plugin broke it off")
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    async def _opened(self, data: bytes, opening: SniFilter) -> bytes:
        """The plugin's first bytes, once they may pass. There is no timeout for the first one: the server may
        speak first."""
        loop = asyncio.get_running_loop()
        try:
            data = data or await loop.sock_recv(self._plugin, BUFFER)
            async with asyncio.timeout(self._bounds.head_seconds):
                while data:
                    if (passed := opening.feed(data)) is not None:
                        return passed
                    data = await loop.sock_recv(self._plugin, BUFFER)
        except TimeoutError:
            raise SniMismatch(
                f"its ClientHello was not whole within {self._bounds.head_seconds:g} s"
            ) from None
        except OSError:
            raise TunnelResult("the plugin broke it off") from None
        return opening.end()

    async def _greeted(self, data: bytes, opening: SniFilter) -> bytes:
        """Pass the hello on, and return what may follow it. No byte does before the server has answered: it
        might be the second hello that the server asks for."""
        hello, rest = data[: opening.hello_ends], data[opening.hello_ends :]
        await self._up.send(hello)
        await self._answered.wait()
        return await self._opened(rest, opening.second_hello()) if self._answer.asks_again else rest

    def _heard(self, data: memoryview) -> None:
        if not self._answered.is_set() and self._answer.feed(bytes(data)):
            self._answered.set()

    async def _downwards(self) -> None:
        try:
            await self._down.run(b"")
        except SourceBroken:
            raise TunnelResult("the server broke it off") from None
        except TargetBroken:
            raise TunnelResult("the plugin broke it off") from None
        self._server_done = True
        self._answered.set()
        with contextlib.suppress(OSError):
            self._plugin.shutdown(socket.SHUT_WR)

    def _spend(self, count: int) -> None:
        if self.up + self.down > self._bounds.bytes_per_connection:
            raise TunnelResult("more bytes than one connection may carry")
        self._spend_of_all(count)


async def linger(plugin: socket.socket) -> None:
    """Let the other end read what it was sent: closing the socket with unread bytes in it could cut that
    short."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        plugin.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(LINGER_SECONDS):
            while await loop.sock_recv(plugin, BUFFER):  # noqa: ASYNC110
                await asyncio.sleep(0)


def _hung_up(plugin: socket.socket) -> bool:
    """Whether the other end has closed its socket, and not only finished sending."""
    poll = select.poll()
    poll.register(plugin, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
