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

from plughost.sandbox.egress.connection import EgressLimits
from plughost.sandbox.egress.late_sni import LateSniFilter
from plughost.sandbox.egress.pump import BUFFER, Pump, SourceBroken, TargetBroken
from plughost.sandbox.egress.sni import (
    ACCESS_DENIED,
    NotTLS,
    ServerHelloReader,
    SniFilter,
    SniMismatch,
)

LINGER_SECONDS = 2.0
"""Time for a plugin to read its last bytes before its socket is closed."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TunnelClosed(Exception):
    """The tunnel was cut, and why."""


class Tunnel:
    """`spend` is called with the number of bytes before they are passed on, and raises TunnelResult when
    there were too many."""

    def __init__(
        self, plugin: socket.socket, server: socket.socket, limits: EgressLimits, spend: Callable[[int], None]
    ) -> None:
        self._plugin = plugin
        self._server = server
        self._limits = limits
        self._spend_total = spend
        self._up = Pump(plugin, server, self._spend)
        self._down = Pump(server, plugin, self._spend, self._on_server_bytes)
        self._server_hello = ServerHelloReader()
        self._hello_answered = asyncio.Event()
        self._server_write_closed = False
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
        up = asyncio.create_task(self._pump_up(early, opening))
        down = asyncio.create_task(self._pump_down())
        try:
            await self._watch(up, down)
        except BaseException as error:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            speaks_tls = isinstance(error, SniMismatch) and not isinstance(error, NotTLS)
            if speaks_tls and (self._server_hello.asks_again or not self.down):
                with contextlib.suppress(OSError):
                    self._plugin.send(ACCESS_DENIED)
            raise
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)  # before their sockets are closed
        if self._server_write_closed:
            await linger(self._plugin)

    async def _watch(self, *tasks: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        while waiting := [task for task in tasks if not task.done()]:
            limits = self._limits
            timeout = limits.idle_seconds if len(waiting) == len(tasks) else limits.half_closed_seconds
            left = max(self._up.moved, self._down.moved) + timeout - loop.time()
            if left <= 0:
                raise TunnelClosed(f"no data for {timeout:g} s")
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _pump_up(self, early: bytes, opening: SniFilter | None) -> None:
        late: LateSniFilter | None = None
        try:
            if opening is not None:
                early = await self._read_opening(early, opening)
                if opening.tls_only and early:
                    early = await self._send_hello(early, opening)
                elif early:
                    late = LateSniFilter(opening.name)
                    self._up.byte_filter = late.feed
            await self._up.run(early)
            if late is not None:
                late.end()
        except SourceBroken:
            raise TunnelClosed("the plugin closed the connection") from None
        except TargetBroken:  # earlier bytes of the server are still on their way
            self._server_write_closed = True
            return
        if not self._server_done and _hung_up(self._plugin):
            raise TunnelClosed("the plugin closed the connection")
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    async def _read_opening(self, data: bytes, opening: SniFilter) -> bytes:
        """The plugin's first bytes, once they may pass. There is no timeout for the first one: the server may
        speak first."""
        loop = asyncio.get_running_loop()
        try:
            data = data or await loop.sock_recv(self._plugin, BUFFER)
            async with asyncio.timeout(self._limits.head_seconds):
                while data:
                    if (passed := opening.feed(data)) is not None:
                        return passed
                    data = await loop.sock_recv(self._plugin, BUFFER)
        except TimeoutError:
            raise SniMismatch(
                f"its ClientHello was not complete within {self._limits.head_seconds:g} s"
            ) from None
        except OSError:
            raise TunnelClosed("the plugin closed the connection") from None
        return opening.end()

    async def _send_hello(self, data: bytes, opening: SniFilter) -> bytes:
        """Pass the hello on, and return what may follow it. No byte does before the server has answered: it
        might be the second hello that the server asks for. Nor does one where the answer is not TLS: to such
        a server the hello was an unknown command, and one that begins TLS could follow."""
        hello, rest = data[: opening.hello_ends], data[opening.hello_ends :]
        self._check_answer()
        await self._up.send(hello)
        await self._hello_answered.wait()
        self._check_answer()
        if self._server_hello.asks_again:
            return await self._read_opening(rest, opening.second_hello())
        return rest

    def _check_answer(self) -> None:
        if not self._server_hello.is_tls:
            raise NotTLS("the server does not answer with TLS, but the port is for TLS only")

    def _on_server_bytes(self, data: memoryview) -> None:
        if not self._hello_answered.is_set() and self._server_hello.feed(bytes(data)):
            self._hello_answered.set()

    async def _pump_down(self) -> None:
        try:
            await self._down.run(b"")
        except SourceBroken:
            raise TunnelClosed("the server closed the connection") from None
        except TargetBroken:
            raise TunnelClosed("the plugin closed the connection") from None
        self._server_done = True
        self._hello_answered.set()
        with contextlib.suppress(OSError):
            self._plugin.shutdown(socket.SHUT_WR)

    def _spend(self, count: int) -> None:
        if self.up + self.down > self._limits.bytes_per_connection:
            raise TunnelClosed("more bytes than one connection may carry")
        self._spend_total(count)


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
