"""The egress proxy of one confined plugin: an HTTP CONNECT proxy on a Unix socket that connects to granted
endpoints.

The socket is the plugin's identity: whoever can connect to it is that instance. Each connection is checked in
this order: the request, the grant, the addresses of the name now (DNS), the TLS server name (SNI). The
addresses that were checked are the ones that are dialled.

Backpressure stays at the plugin's side of the socket: connections beyond the limit are not accepted, and
bytes that the other side does not take are not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import Address, shown
from plughost.permissions.dns import Resolve, Resolver, addresses, is_remote
from plughost.sandbox.denials.connections import wanted
from plughost.sandbox.egress.connect import ConnectRefusal, match_grant, parse_connect
from plughost.sandbox.egress.connection import Connection, EgressLimits, Verdict
from plughost.sandbox.egress.sni import NotTLS, SniFilter, SniMismatch
from plughost.sandbox.egress.tls_ports import expected_opening
from plughost.sandbox.egress.tunnel import Tunnel, TunnelClosed, linger

RESOLVERS = 2
"""DNS threads of each plugin: its slow names delay nobody else."""
ADDRESSES = 8
"""Addresses of one name that are tried."""
CONNECT_TIMEOUT = 5.0
"""Seconds for each address, so that a dead one does not use up the time of the next."""
MOST_OF_METHOD = 20
"""Characters of the request's method that are recorded."""

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class EgressProxy:
    """Serves the plugin that connects to `listener`, from now on; `on_connection` is called with the record
    of each connection that has ended."""

    def __init__(
        self,
        listener: socket.socket,
        endpoints: tuple[Endpoint, ...],
        on_connection: Callable[[Connection], None],
        *,
        limits: EgressLimits | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._listener = listener
        self._endpoints = endpoints
        self._on_connection = on_connection
        self._limits = limits or EgressLimits()
        self._resolver = Resolver(RESOLVERS, "plughost-egress")
        self._resolve = resolve or self._resolver
        self._loop = asyncio.get_running_loop()
        self._live: set[asyncio.Task[None]] = set()
        self._bytes_left = self._limits.bytes_in_all
        self._accepts_left = self._limits.connections_per_second
        self._accepting = False
        self._next_second: asyncio.TimerHandle | None = None
        self._closed = False
        listener.setblocking(False)
        self._update_accepting()

    async def close(self) -> None:
        """Close all connections, and return when all are reported."""
        self._closed = True
        self._update_accepting()
        self._listener.close()
        if self._next_second is not None:
            self._next_second.cancel()
        for task in self._live:
            task.cancel()
        await asyncio.gather(*self._live, return_exceptions=True)

    def _update_accepting(self) -> None:
        has_capacity = len(self._live) < self._limits.connections and self._accepts_left > 0
        wanted = has_capacity and not self._closed
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
        except OSError:  # no file descriptor is left: try again in a second
            self._accepts_left = 0
        else:
            plugin.setblocking(False)
            self._accepts_left -= 1
            task = self._loop.create_task(self._serve(plugin))
            self._live.add(task)
            task.add_done_callback(partial(self._on_done, plugin))
        if self._next_second is None:
            self._next_second = self._loop.call_later(1.0, self._refill_accepts)
        self._update_accepting()

    def _refill_accepts(self) -> None:
        self._next_second = None
        self._accepts_left = self._limits.connections_per_second
        self._update_accepting()

    def _on_done(self, plugin: socket.socket, task: asyncio.Task[None]) -> None:
        plugin.close()
        self._live.discard(task)
        self._update_accepting()

    async def _serve(self, plugin: socket.socket) -> None:
        started = self._loop.time()
        state = _ConnectionState()
        try:
            await self._handle(plugin, state)
        except asyncio.CancelledError:
            state.why = "the host closed it"
            raise
        finally:
            record = Connection(
                host=state.host,
                port=state.port,
                asked="" if state.host else state.asked,
                address=state.address,
                verdict=state.verdict,
                why=state.why,
                wanting=state.wanting,
                up=state.tunnel.up if state.tunnel else 0,
                down=state.tunnel.down if state.tunnel else 0,
                seconds=self._loop.time() - started,
            )
            self._loop.call_soon(self._on_connection, record)  # the loop reports its exceptions

    async def _handle(self, plugin: socket.socket, state: _ConnectionState) -> None:
        """Handle one connection from its first byte to its last."""
        try:
            head, early = await self._read_head(plugin)
            state.asked = _redact_request_line(head.partition(b"\r\n")[0])
            state.host, state.port = parse_connect(head)
            endpoint = match_grant(self._endpoints, state.host, state.port)
            if endpoint is None:
                place = wanted(state.host, state.port)
                raise ConnectRefusal(403, f"{Endpoint(place.host, place.port)} was not granted", place)
            server = await self._dial(state, endpoint)
        except ConnectRefusal as refusal:
            state.verdict = "failed" if refusal.status in {502, 504} else "refused"
            state.why, state.wanting = refusal.why, refusal.wanting
            with contextlib.suppress(OSError):
                plugin.send(refusal.answer)
            await linger(plugin)
            return
        except OSError:
            state.why = "the plugin closed the connection before its request was complete"
            return
        with server:
            state.verdict, state.why = "made", "done"
            begins = expected_opening(endpoint, state.host, state.port)
            opening = None if begins == "anything" else SniFilter(state.host, tls_only=begins == "TLS")
            state.tunnel = Tunnel(plugin, server, self._limits, self._spend)
            try:
                await self._loop.sock_sendall(plugin, _ESTABLISHED)
                await state.tunnel.run(early, opening)
            except SniMismatch as mismatch:
                state.verdict, state.why = "refused", str(mismatch)
                if isinstance(mismatch, NotTLS):
                    state.wanting = Endpoint(state.host, state.port, endpoint.private, plain=True)
            except TunnelClosed as end:
                state.why = str(end)
            except OSError:
                state.why = "the plugin closed the connection"

    async def _read_head(self, plugin: socket.socket) -> tuple[bytes, bytes]:
        """The head of the request, and the bytes that came after it."""
        head = bytearray()
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                while (end := head.find(b"\r\n\r\n")) < 0:
                    if len(head) >= self._limits.head:
                        raise ConnectRefusal(431, f"a request has at most {self._limits.head} bytes")
                    data = await self._loop.sock_recv(plugin, self._limits.head - len(head))
                    if not data:
                        raise ConnectRefusal(400, "the request is incomplete")
                    head += data
        except TimeoutError:
            raise ConnectRefusal(
                408, f"the request was not complete within {self._limits.head_seconds:g} s"
            ) from None
        return bytes(head[:end]), bytes(head[end + 4 :])

    async def _dial(self, state: _ConnectionState, endpoint: Endpoint) -> socket.socket:
        failures = []
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                if endpoint.socket:
                    return await self._connect_unix(endpoint.socket, state)
                for address in await self._allowed_addresses(state, endpoint):
                    state.address = str(address)
                    try:
                        return await self._connect(address, state.port)
                    except OSError as error:
                        failures.append(f"{address}: {error.strerror or 'no answer'}")
        except TimeoutError:
            raise ConnectRefusal(
                504, f"{state.host} was not reached within {self._limits.connect_seconds:g} s"
            ) from None
        raise ConnectRefusal(502, f"cannot connect to {state.host}: {', '.join(failures)}")

    async def _allowed_addresses(self, state: _ConnectionState, endpoint: Endpoint) -> list[Address]:
        host = state.host
        try:
            found = await addresses(host, self._resolve)
        except OSError:
            found = []
        if not found:
            raise ConnectRefusal(502, f"the name {host} cannot be resolved")
        private = [str(address) for address in found if not is_remote(address)]
        if private and not endpoint.private:
            needed = Endpoint(host, state.port, private=True)
            raise ConnectRefusal(
                403, f"{host} resolves to {private[0]}, which is not a public address", needed
            )
        return found[:ADDRESSES]

    async def _connect(self, address: Address, port: int) -> socket.socket:
        server = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6)
        try:
            server.setblocking(False)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._loop.sock_connect(server, (str(address), port))
        except BaseException:
            server.close()
            raise
        return server

    async def _connect_unix(self, path: str, state: _ConnectionState) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        state.address = "the host's own socket"
        try:
            server.setblocking(False)
            await self._loop.sock_connect(server, path)
        except OSError as error:
            server.close()
            raise ConnectRefusal(502, f"{state.host} does not answer: {error.strerror}") from error
        except BaseException:
            server.close()
            raise
        return server

    def _spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise TunnelClosed("the plugin has used up the bytes that it may send and receive")


def _redact_request_line(request: bytes) -> str:
    """The part of a request line that may be recorded: without passwords and queries."""
    method, _, rest = request.decode("latin-1").partition(" ")
    return f"{shown(method[:MOST_OF_METHOD])} {shown(rest.partition(' ')[0])}".rstrip()


class _ConnectionState:
    """The state of one connection so far."""

    asked = ""
    host = ""
    port = 0
    wanting: Endpoint | None = None
    address = ""
    verdict: Verdict = "refused"
    why = ""
    tunnel: Tunnel | None = None
