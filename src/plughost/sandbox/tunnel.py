"""Bytes both ways between a plugin and a server, one small buffer each way: a slow reader slows its sender.

The end of one direction is passed on and the other goes on. A connection that breaks on one side is broken on
the other, too: nobody may take half an answer for a whole one.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import TypeVar

from plughost.sandbox.connection import Bounds
from plughost.sandbox.opening import ACCESS_DENIED, Mismatch, Opening

T = TypeVar("T")

BUFFER = 64 << 10
LINGER_SECONDS = 2.0
"""For a plugin to take its last bytes before its socket is closed."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Ended(Exception):
    """Why a tunnel was cut."""


class Tunnel:
    """`spend` is told of bytes before they are passed on, and raises Ended when there were too many."""

    def __init__(
        self, plugin: socket.socket, server: socket.socket, bounds: Bounds, spend: Callable[[int], None]
    ) -> None:
        self.up = 0
        self.down = 0
        self._plugin = plugin
        self._server = server
        self._bounds = bounds
        self._spend = spend
        self._loop = asyncio.get_running_loop()
        self._moved = self._loop.time()
        self._server_deaf = False
        self._server_done = False

    async def run(self, early: bytes, opening: Opening | None) -> None:
        """Until both sides are done. Ended when it was cut; Mismatch when TLS is opened to another name."""
        up = self._loop.create_task(self._upwards(early, opening))
        down = self._loop.create_task(self._downwards())
        try:
            await self._watch(up, down)
        except BaseException as error:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            if isinstance(error, Mismatch) and not self.down:
                with contextlib.suppress(OSError):
                    self._plugin.send(ACCESS_DENIED)
            raise
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)  # before the sockets are closed below them
        if self._server_deaf:
            await linger(self._plugin)

    async def _watch(self, *tasks: asyncio.Task[None]) -> None:
        while waiting := [task for task in tasks if not task.done()]:
            bounds = self._bounds
            patience = bounds.idle_seconds if len(waiting) == len(tasks) else bounds.half_closed_seconds
            left = self._moved + patience - self._loop.time()
            if left <= 0:
                raise Ended(f"no byte for {patience:g} s")
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _upwards(self, early: bytes, opening: Opening | None) -> None:
        buffer = memoryview(bytearray(BUFFER))
        try:
            if opening is not None:
                early = await self._opened(early, opening)
            if early:
                await self._pass_up(early)
            while count := await self._from_plugin(self._loop.sock_recv_into(self._plugin, buffer)):
                await self._pass_up(buffer[:count])
            if not self._server_done and _hung_up(self._plugin):
                raise Ended("the plugin broke it off")
            self._server.shutdown(socket.SHUT_WR)
        except OSError:  # what the server has said before is still on its way down
            self._server_deaf = True

    async def _opened(self, data: bytes, opening: Opening) -> bytes:
        """The plugin's first bytes, once they may pass; it may wait for the server to speak before it."""
        data = data or await self._from_plugin(self._loop.sock_recv(self._plugin, BUFFER))
        try:
            async with asyncio.timeout(self._bounds.head_seconds):
                while data:
                    if (passed := opening.feed(data)) is not None:
                        return passed
                    data = await self._from_plugin(self._loop.sock_recv(self._plugin, BUFFER))
        except TimeoutError:
            raise Mismatch(f"its ClientHello was not whole within {self._bounds.head_seconds:g} s") from None
        return opening.end()

    async def _pass_up(self, data: bytes | memoryview) -> None:
        self._count(up=len(data))
        await self._loop.sock_sendall(self._server, data)
        self._moved = self._loop.time()
        await asyncio.sleep(0)  # where both sides are fast nothing above ever waits

    async def _downwards(self) -> None:
        buffer = memoryview(bytearray(BUFFER))
        while count := await self._from_server(buffer):
            self._count(down=count)
            await self._from_plugin(self._loop.sock_sendall(self._plugin, buffer[:count]))
            self._moved = self._loop.time()
            await asyncio.sleep(0)
        self._server_done = True
        with contextlib.suppress(OSError):
            self._plugin.shutdown(socket.SHUT_WR)

    async def _from_server(self, buffer: memoryview) -> int:
        try:
            return await self._loop.sock_recv_into(self._server, buffer)
        except OSError:
            raise Ended("the server broke it off") from None

    async def _from_plugin(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except OSError:
            raise Ended("the plugin broke it off") from None

    def _count(self, up: int = 0, down: int = 0) -> None:
        self._moved = self._loop.time()
        self.up += up
        self.down += down
        if self.up + self.down > self._bounds.bytes_per_connection:
            raise Ended("more bytes than one connection may carry")
        self._spend(up + down)


async def linger(plugin: socket.socket) -> None:
    """Let the other end read what it was sent: closing with its own bytes unread could cut that short."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        plugin.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(LINGER_SECONDS):
            while await loop.sock_recv(plugin, BUFFER):  # noqa: ASYNC110
                await asyncio.sleep(0)


def _hung_up(plugin: socket.socket) -> bool:
    """Closed at the other end, not only done with sending."""
    poll = select.poll()
    poll.register(plugin, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
