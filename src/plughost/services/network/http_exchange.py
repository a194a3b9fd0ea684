"""One HTTP exchange over a connection of its own. The only module that uses httpx; it is imported late."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpcore
import httpx

from plughost.errors import InvalidSpec
from plughost.permissions.addresses import UrlTarget

CONNECT_TIMEOUT = 5.0
"""Seconds for each address of a name, so that a dead one does not use up the time of the next."""

Admit = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses to dial for a host and port; raises Denied."""
Connect = Callable[[str, int], Awaitable[httpcore.AsyncNetworkStream]]

certificates = httpx.create_ssl_context


async def tcp(address: str, port: int) -> httpcore.AsyncNetworkStream:
    """Connect to an IP address, without any DNS lookup."""
    return await httpcore.AnyIOBackend().connect_tcp(address, port)


class Dialler(httpcore.AsyncNetworkBackend):
    """Opens connections: only to the addresses that `admit` returns for a host.

    The check is here, below all code that parses URLs, so that two parsers cannot disagree about the host.
    """

    def __init__(self, admit: Admit, connect: Connect) -> None:
        self._admit = admit
        self._connect = connect
        self._streams: list[httpcore.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failures = []
        for address in await self._admit(host, port):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    stream = await self._connect(address, port)
            except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
                failures.append(f"{address}: {_reason(error)}")
            else:
                self._streams.append(stream)
                return stream
        raise ConnectionError("cannot connect to " + (", ".join(failures) or host))

    async def aclose(self) -> None:
        """Close all streams, including one left open by a cancelled TLS handshake."""
        for stream in self._streams:
            await stream.aclose()


class Transport(httpx.AsyncHTTPTransport):
    """The transport of httpx over our Dialler. httpx's own constructor takes none, and reads certificates
    each time."""

    def __init__(self, dialler: Dialler, tls: ssl.SSLContext | None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, max_connections=1, max_keepalive_connections=0, network_backend=dialler
        )


async def exchange(
    dialler: Dialler,
    tls: ssl.SSLContext | None,
    target: UrlTarget,
    method: str,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    max_body: int,
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Send a request; returns status, headers and body as they came. There is no httpx client, so no cookies,
    no proxies, no redirects and no decoding."""
    received = bytearray()
    try:
        request = httpx.Request(method, target.url, headers=list(headers), content=body)
        async with Transport(dialler, tls) as transport:
            response = await transport.handle_async_request(request)
            try:
                async for chunk in response.aiter_raw():
                    received += chunk
                    if len(received) > max_body:
                        raise InvalidSpec(f"fetch {target}: the answer is larger than {max_body} bytes")
            finally:
                await response.aclose()
    except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
        raise InvalidSpec(f"fetch {target}: {_reason(error)}") from error
    finally:
        await dialler.aclose()
    return response.status_code, response.headers.multi_items(), bytes(received)


def _reason(error: BaseException) -> str:
    """The error message of the operating system if there is one: libraries wrap it in their own errors."""
    deepest: BaseException | None = error
    while deepest is not None:
        if isinstance(deepest, OSError) and not isinstance(deepest, ssl.SSLError) and deepest.errno:
            return os.strerror(deepest.errno) if deepest.errno > 0 else str(deepest.strerror)
        deepest = deepest.__cause__ or deepest.__context__
    return str(error) or "no answer"
