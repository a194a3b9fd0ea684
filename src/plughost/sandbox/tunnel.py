"""A plugin and a server connected: the end of one direction is passed on, and the other goes on.

A connection that breaks on one side breaks on the other, too: nobody may take half an answer for a whole one.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Callable

from plughost.sandbox.connection import Bounds
from plughost.sandbox.flow import BUFFER, Flow, SourceBroken, TargetBroken
from plughost.sandbox.late_hello import LateHello
from plughost.sandbox.opening import ACCESS_DENIED, Answer, Mismatch, NotTLS, Opening

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
        self._plugin = plugin
        self._server = server
        self._bounds = bounds
        self._spend_of_all = spend
        self._up = Flow(plugin, server, self._spend)
        self._down = Flow(server, plugin, self._spend, self._heard)
        self._answer = Answer()
        self._answered = asyncio.Event()
        self._server_deaf = False
        self._server_done = False

    @property
    def up(self) -> int:
        return self._up.bytes

    @property
    def down(self) -> int:
        return self._down.bytes

    async def run(self, early: bytes, opening: Opening | None) -> None:
        """Until both sides are done. Ended when it was cut; Mismatch when TLS is opened to another name."""
        up = asyncio.create_task(self._upwards(early, opening))
        down = asyncio.create_task(self._downwards())
        try:
            await self._watch(up, down)
        except BaseException as error:
            self._server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            speaks_tls = isinstance(error, Mismatch) and not isinstance(error, NotTLS)
            if speaks_tls and (self._answer.asks_again or not self.down):
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
        loop = asyncio.get_running_loop()
        while waiting := [task for task in tasks if not task.done()]:
            bounds = self._bounds
            patience = bounds.idle_seconds if len(waiting) == len(tasks) else bounds.half_closed_seconds
            left = max(self._up.moved, self._down.moved) + patience - loop.time()
            if left <= 0:
                raise Ended(f"no byte for {patience:g} s")
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _upwards(self, early: bytes, opening: Opening | None) -> None:
        late: LateHello | None = None
        try:
            if opening is not None:
                early = await self._opened(early, opening)
                if opening.tls_only and early:
                    early = await self._greeted(early, opening)
                elif early:
                    late = LateHello(opening.name)
                    self._up.screen = late.feed
            await self._up.run(early)
            if late is not None:
                late.end()
        except SourceBroken:
            raise Ended("the plugin broke it off") from None
        except TargetBroken:  # what the server has said before is still on its way down
            self._server_deaf = True
            return
        if not self._server_done and _hung_up(self._plugin):
            raise Ended("the plugin broke it off")
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    async def _opened(self, data: bytes, opening: Opening) -> bytes:
        """The plugin's first bytes, once they may pass; it may wait for the server to speak before it."""
        loop = asyncio.get_running_loop()
        try:
            data = data or await loop.sock_recv(self._plugin, BUFFER)
            async with asyncio.timeout(self._bounds.head_seconds):
                while data:
                    if (passed := opening.feed(data)) is not None:
                        return passed
                    data = await loop.sock_recv(self._plugin, BUFFER)
        except TimeoutError:
            raise Mismatch(f"its ClientHello was not whole within {self._bounds.head_seconds:g} s") from None
        except OSError:
            raise Ended("the plugin broke it off") from None
        return opening.end()

    async def _greeted(self, data: bytes, opening: Opening) -> bytes:
        """Passes the hello on, and returns what may follow it. No byte does before the server has answered:
        it might be the second hello that the server asks for. Nor where that answer is no TLS: to such a
        server the hello was an unknown command, and one that begins TLS could follow."""
        hello, rest = data[: opening.hello_ends], data[opening.hello_ends :]
        self._check_answer()
        await self._up.send(hello)
        await self._answered.wait()
        self._check_answer()
        return await self._opened(rest, opening.again()) if self._answer.asks_again else rest

    def _check_answer(self) -> None:
        if not self._answer.is_tls:
            raise NotTLS("the server does not answer with TLS, on a port that is for TLS alone")

    def _heard(self, data: memoryview) -> None:
        if not self._answered.is_set() and self._answer.feed(bytes(data)):
            self._answered.set()

    async def _downwards(self) -> None:
        try:
            await self._down.run(b"")
        except SourceBroken:
            raise Ended("the server broke it off") from None
        except TargetBroken:
            raise Ended("the plugin broke it off") from None
        self._server_done = True
        self._answered.set()
        with contextlib.suppress(OSError):
            self._plugin.shutdown(socket.SHUT_WR)

    def _spend(self, count: int) -> None:
        if self.up + self.down > self._bounds.bytes_per_connection:
            raise Ended("more bytes than one connection may carry")
        self._spend_of_all(count)


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
