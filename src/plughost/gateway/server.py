"""The HTTP server of the gateway: uvicorn, with the limits that hostile and slow clients need."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from litestar.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Seconds for the head of a request: from the connection, or from its first byte, to its last."""
MAX_HEAD = 16 << 10
"""Bytes of the head of a request."""
KEEP_ALIVE_SECONDS = 60
MAX_CONNECTIONS = 2000
"""Connections at a time; further ones get 503."""


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a time limit for heads: uvicorn itself waits for half a head as long as the
    client likes."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._head_timer is None and self.cycle is not None and self.cycle.response_complete:
            self._await_head()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._on_slow_head)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_slow_head(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.abort()


class GatewayServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program, and tells when it listens."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no signal handlers: the program decides when the gateway ends."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept connections, then calls `on_started`."""
        await super().startup(sockets)
        self.on_started()

    on_started: Callable[[], object] = staticmethod(lambda: None)


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket. OSError when the address is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by its connections. Without it, each small answer waits 40 ms for the client's ack.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def create_server(app: ASGIApp, *, tls: ssl.SSLContext | None = None, grace: float = 10.0) -> GatewayServer:
    """A server for an application; `serve(sockets=[…])` runs it until `should_exit` is set."""
    settings: dict[str, Any] = {
        "http": BoundedProtocol,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": True,
        "h11_max_incomplete_event_size": MAX_HEAD,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": max(int(grace), 1),
        "limit_concurrency": MAX_CONNECTIONS,
        "proxy_headers": False,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    config.ssl = tls
    return GatewayServer(config)
