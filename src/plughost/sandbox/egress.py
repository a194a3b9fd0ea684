"""The one way out of a confined plugin: a proxy on a socket of its own that connects to what was granted.

The socket is the plugin's identity: whoever can connect to it is that instance. Each connection is judged
anew, in this order: what is asked for, whether it was granted, where its name leads now, which name TLS is
opened to. The addresses that were checked are the ones dialled.

Whatever a plugin does too much of waits at its own side of the socket: connections beyond the limit are not
accepted, bytes that the other side does not take are not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial

from plughost.guard.addresses import Address, shown
from plughost.guard.lookup import Lookup, Resolve, addresses, leads_away
from plughost.guard.powers import Endpoint
from plughost.sandbox.admission import Refusal, asked, granted
from plughost.sandbox.connection import Bounds, Connection, Verdict
from plughost.sandbox.dialled import wanted
from plughost.sandbox.opening import Mismatch, NotTLS, Opening
from plughost.sandbox.tls_ports import beginning
from plughost.sandbox.tunnel import Ended, Tunnel, linger

RESOLVERS = 2
"""Threads of each plugin that look names up: its slow names are its own trouble."""
ADDRESSES = 8
"""Of one name, that are tried."""
CONNECT_PATIENCE = 5.0
"""For each of them, so that a dead one does not use up the time of the next."""
MOST_OF_METHOD = 20
"""Characters of a request's first word that are told."""

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Egress:
    """Serves the plugin that connects to `listener`, from now on; `on_connection` is told when one ends."""

    def __init__(
        self,
        listener: socket.socket,
        endpoints: tuple[Endpoint, ...],
        on_connection: Callable[[Connection], None],
        *,
        bounds: Bounds | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._listener = listener
        self._endpoints = endpoints
        self._on_connection = on_connection
        self._bounds = bounds or Bounds()
        self._lookup = Lookup(RESOLVERS, "plughost-egress")
        self._resolve = resolve or self._lookup
        self._loop = asyncio.get_running_loop()
        self._live: set[asyncio.Task[None]] = set()
        self._bytes_left = self._bounds.bytes_in_all
        self._accepts_left = self._bounds.connections_per_second
        self._accepting = False
        self._next_second: asyncio.TimerHandle | None = None
        self._closed = False
        listener.setblocking(False)
        self._accept_or_rest()

    async def close(self) -> None:
        """Cuts what is open and returns when all is told."""
        self._closed = True
        self._accept_or_rest()
        self._listener.close()
        if self._next_second is not None:
            self._next_second.cancel()
        for task in self._live:
            task.cancel()
        await asyncio.gather(*self._live, return_exceptions=True)

    def _accept_or_rest(self) -> None:
        room = len(self._live) < self._bounds.connections and self._accepts_left > 0
        wanted = room and not self._closed
        if wanted and not self._accepting:
            self._loop.add_reader(self._listener, self._accept)
        elif self._accepting and not wanted:
            self._loop.remove_reader(self._listener)
        self._accepting = wanted

    def _accept(self) -> None:
        try:
            plugin, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left: in a second there may be
            self._accepts_left = 0
        else:
            plugin.setblocking(False)
            self._accepts_left -= 1
            task = self._loop.create_task(self._serve(plugin))
            self._live.add(task)
            task.add_done_callback(partial(self._over, plugin))
        if self._next_second is None:
            self._next_second = self._loop.call_later(1.0, self._second_over)
        self._accept_or_rest()

    def _second_over(self) -> None:
        self._next_second = None
        self._accepts_left = self._bounds.connections_per_second
        self._accept_or_rest()

    def _over(self, plugin: socket.socket, task: asyncio.Task[None]) -> None:
        plugin.close()
        self._live.discard(task)
        self._accept_or_rest()

    async def _serve(self, plugin: socket.socket) -> None:
        began = self._loop.time()
        visit = _Visit()
        try:
            await self._visit(plugin, visit)
        except asyncio.CancelledError:
            visit.why = "the host closed it"
            raise
        finally:
            record = Connection(
                host=visit.host,
                port=visit.port,
                asked="" if visit.host else visit.asked,
                address=visit.address,
                verdict=visit.verdict,
                why=visit.why,
                wanting=visit.wanting,
                up=visit.tunnel.up if visit.tunnel else 0,
                down=visit.tunnel.down if visit.tunnel else 0,
                seconds=self._loop.time() - began,
            )
            self._loop.call_soon(self._on_connection, record)  # what it raises is the loop's to report

    async def _visit(self, plugin: socket.socket, visit: _Visit) -> None:
        """One connection from its first byte to its last."""
        try:
            head, early = await self._head(plugin)
            visit.asked = _told(head.partition(b"\r\n")[0])
            visit.host, visit.port = asked(head)
            endpoint = granted(self._endpoints, visit.host, visit.port)
            if endpoint is None:
                place = wanted(visit.host, visit.port)
                raise Refusal(403, f"{Endpoint(place.host, place.port)} was not granted", place)
            server = await self._dial(visit, endpoint)
        except Refusal as refusal:
            visit.verdict = "failed" if refusal.status in {502, 504} else "refused"
            visit.why, visit.wanting = refusal.why, refusal.wanting
            with contextlib.suppress(OSError):
                plugin.send(refusal.answer)
            await linger(plugin)
            return
        except OSError:
            visit.why = "the plugin broke it off before it had asked"
            return
        with server:
            visit.verdict, visit.why = "made", "done"
            begins = beginning(endpoint, visit.host, visit.port)
            opening = None if begins == "anything" else Opening(visit.host, tls_only=begins == "TLS")
            visit.tunnel = Tunnel(plugin, server, self._bounds, self._spend)
            try:
                await self._loop.sock_sendall(plugin, _ESTABLISHED)
                await visit.tunnel.run(early, opening)
            except Mismatch as mismatch:
                visit.verdict, visit.why = "refused", str(mismatch)
                if isinstance(mismatch, NotTLS):
                    visit.wanting = Endpoint(visit.host, visit.port, endpoint.private, plain=True)
            except Ended as end:
                visit.why = str(end)
            except OSError:
                visit.why = "the plugin broke it off"

    async def _head(self, plugin: socket.socket) -> tuple[bytes, bytes]:
        """The head of the request, and what came after it."""
        head = bytearray()
        try:
            async with asyncio.timeout(self._bounds.head_seconds):
                while (end := head.find(b"\r\n\r\n")) < 0:
                    if len(head) >= self._bounds.head:
                        raise Refusal(431, f"a request has at most {self._bounds.head} bytes")
                    data = await self._loop.sock_recv(plugin, self._bounds.head - len(head))
                    if not data:
                        raise Refusal(400, "the request ended before it was whole")
                    head += data
        except TimeoutError:
            raise Refusal(408, f"the request was not whole within {self._bounds.head_seconds:g} s") from None
        return bytes(head[:end]), bytes(head[end + 4 :])

    async def _dial(self, visit: _Visit, endpoint: Endpoint) -> socket.socket:
        failures = []
        try:
            async with asyncio.timeout(self._bounds.connect_seconds):
                if endpoint.socket:
                    return await self._connect_here(endpoint.socket, visit)
                for address in await self._admissible(visit, endpoint):
                    visit.address = str(address)
                    try:
                        return await self._connect(address, visit.port)
                    except OSError as error:
                        failures.append(f"{address}: {error.strerror or 'no answer'}")
        except TimeoutError:
            raise Refusal(
                504, f"{visit.host} was not reached within {self._bounds.connect_seconds:g} s"
            ) from None
        raise Refusal(502, f"cannot connect to {visit.host}: {', '.join(failures)}")

    async def _admissible(self, visit: _Visit, endpoint: Endpoint) -> list[Address]:
        host = visit.host
        try:
            found = await addresses(host, self._resolve)
        except OSError:
            found = []
        if not found:
            raise Refusal(502, f"the name {host} cannot be looked up")
        private = [str(address) for address in found if not leads_away(address)]
        if private and not endpoint.private:
            needed = Endpoint(host, visit.port, private=True)
            raise Refusal(403, f"{host} leads to {private[0]}, which is not public", needed)
        return found[:ADDRESSES]

    async def _connect(self, address: Address, port: int) -> socket.socket:
        server = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6)
        try:
            server.setblocking(False)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_PATIENCE):
                await self._loop.sock_connect(server, (str(address), port))
        except BaseException:
            server.close()
            raise
        return server

    async def _connect_here(self, path: str, visit: _Visit) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        visit.address = "the host's own socket"
        try:
            server.setblocking(False)
            await self._loop.sock_connect(server, path)
        except OSError as error:
            server.close()
            raise Refusal(502, f"{visit.host} does not answer: {error.strerror}") from error
        except BaseException:
            server.close()
            raise
        return server

    def _spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise Ended("more bytes than this plugin may send and receive")


def _told(request: bytes) -> str:
    """What may be kept of a request's first line: no password in it, and no query."""
    method, _, rest = request.decode("latin-1").partition(" ")
    return f"{shown(method[:MOST_OF_METHOD])} {shown(rest.partition(' ')[0])}".rstrip()


class _Visit:
    """What is known of a connection so far."""

    asked = ""
    host = ""
    port = 0
    wanting: Endpoint | None = None
    address = ""
    verdict: Verdict = "refused"
    why = ""
    tunnel: Tunnel | None = None
