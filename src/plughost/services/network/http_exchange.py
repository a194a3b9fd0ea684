"""One request and its answer over a connection of their own. Only this file knows httpx; imported late."""

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

CONNECT_PATIENCE = 5.0
"""For each of a name's addresses, so that a dead one does not use up the time of the next."""

Admit = Callable[[str, int], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[httpcore.AsyncNetworkStream]]

certificates = httpx.create_ssl_context


async def tcp(address: str, port: int) -> httpcore.AsyncNetworkStream:
    """Dial an IP address; nothing is looked up on the way."""
    return await httpcore.AnyIOBackend().connect_tcp(address, port)


class Dialler(httpcore.AsyncNetworkBackend):
    """The only way out: it dials what `admit` returned for the host, and nothing else.

    The guard sits here, below everything that reads a URL, so that no two readings of one can differ.
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
                async with asyncio.timeout(CONNECT_PATIENCE):
                    stream = await self._connect(address, port)
            except (OSError, httpcore.NetworkError, httpcore.TimeoutException) as error:
                failures.append(f"{address}: {_reason(error)}")
            else:
                self._streams.append(stream)
                return stream
        raise ConnectionError("cannot connect to " + (", ".join(failures) or host))

    async def aclose(self) -> None:
        """Also what a cancelled TLS handshake has left open."""
        for stream in self._streams:
            await stream.aclose()


class Transport(httpx.AsyncHTTPTransport):
    """httpx's own over our dialler; its constructor has no place for one and reads certificates each time."""

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
    """Status, headers and body as they came. No client: no cookies, no proxies, no redirects, no decoding."""
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
    """The operating system's word where there is one: libraries hide it behind their own."""
    deepest: BaseException | None = error
    while deepest is not None:
        if isinstance(deepest, OSError) and not isinstance(deepest, ssl.SSLError) and deepest.errno:
            return os.strerror(deepest.errno) if deepest.errno > 0 else str(deepest.strerror)
        deepest = deepest.__cause__ or deepest.__context__
    return str(error) or "no answer"
