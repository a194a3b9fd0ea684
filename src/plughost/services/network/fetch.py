"""Network: guarded HTTP requests for plugins (against SSRF). Each redirect is checked like the first request.

Grants are checked where the connection is opened (`http_exchange.Dialler`): a name is resolved once, every
address is checked, and exactly the checked addresses are dialled. Nothing is shared between two fetches,
neither connections nor cookies, so one plugin's grants never carry another's request.

Bodies are passed on as they came. Unless the plugin asks for an encoding, the server is asked for none. A
body that is encoded all the same stays encoded, with its Content-Encoding: the host decompresses nothing, so
nothing can grow in its memory.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import string
import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

import msgspec

from plughost._util.seconds import check_seconds
from plughost._util.text import bounded
from plughost.errors import Denied, InvalidSpec, Stopped
from plughost.permissions.addresses import UrlTarget, names, parse_url, shown
from plughost.permissions.dns import Resolve, Resolver, addresses, is_remote
from plughost.permissions.operator_only import OperatorAccess

if TYPE_CHECKING:
    import ssl

    from plughost.services.network.http_exchange import Connect

NO_OPERATOR_ACCESS = OperatorAccess()
RESOLVER_THREADS = 4
"""Threads for DNS lookups."""

_EXCHANGE = "plughost.services.network.http_exchange"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~]*")
_REFUSED_METHODS = {"CONNECT", "TRACE", "TRACK"}
_HOST_HEADERS = {
    *("host", "connection", "keep-alive", "transfer-encoding", "content-length"),
    *("upgrade", "http2-settings", "te", "trailer", "expect"),
}
_SECRET_HEADERS = {"authorization", "cookie"}
_REDIRECTS = {301, 302, 303, 307, 308}
_URL_CHARACTERS = string.punctuation.replace("\\", "")


class Fetch(msgspec.Struct, frozen=True):
    """An HTTP request of a plugin. Headers about the connection (Host, Content-Length, Proxy-* …) are
    ignored: the host sets them."""

    url: str
    method: str = ""
    """Empty for GET."""
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Fetched(msgspec.Struct, frozen=True):
    """The HTTP response after all redirects, whatever its status; header names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Network:
    """Fetches URLs for plugins. `timeout` is for a whole fetch: waiting for a slot, all redirects, the last
    byte. `max_body` is for each response.

    `tls` replaces the default certificate authorities. `resolve` and `connect` replace the system's.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        max_body: int = 8 << 20,
        timeout: float = 30.0,
        max_redirects: int = 5,
        at_once: int = 16,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
    ) -> None:
        check_seconds("timeout", timeout)
        self._allow_private = allow_private
        self._max_body = max_body
        self._timeout = timeout
        self._max_redirects = max_redirects
        self._slots = asyncio.Semaphore(at_once)
        self._tls = tls
        self._resolver = Resolver(RESOLVER_THREADS, "plughost-network")
        self._resolve = resolve or self._resolver
        self._connect = connect
        self._running: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._closed = False

    async def fetch(
        self, hosts: tuple[str, ...] | None, request: Fetch, operator: OperatorAccess = NO_OPERATOR_ACCESS
    ) -> Fetched:
        """Fetch a URL. Only `hosts` are allowed; None is any. Only public addresses are used, except for
        hosts that the `operator` granted by name."""
        if self._closed:
            raise Stopped("the host's network service is closed")
        hop = first_hop(request)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                self._running.add(limit)
                try:
                    async with self._slots:
                        return await self._follow_redirects(FetchAccess(hosts, operator), hop)
                finally:
                    self._running.discard(limit)
                    if not self._running:
                        self._idle.set()
        except TimeoutError as error:
            if self._closed:
                raise Stopped("the host's network service was closed") from error
            raise InvalidSpec(f"fetch {hop.target}: not finished within {self._timeout:g} s") from error

    async def close(self) -> None:
        """Cancel all running fetches, and return when their connections are closed."""
        self._closed = True
        self._idle.clear()
        for limit in self._running:
            if not limit.expired():
                limit.reschedule(0)
        if self._running:
            await self._idle.wait()

    async def _follow_redirects(self, access: FetchAccess, hop: Hop) -> Fetched:
        start = hop.target
        for _ in range(self._max_redirects + 1):
            answer = await self._exchange(access, hop)
            next_one = next_hop(hop, answer)
            if next_one is None:
                return answer
            hop = next_one
        raise InvalidSpec(f"fetch {start}: more than {self._max_redirects} redirects")

    async def _exchange(self, access: FetchAccess, hop: Hop) -> Fetched:
        if _EXCHANGE not in sys.modules:  # in a thread: importing httpx takes a sixth of a second
            await self._resolver.in_thread(partial(importlib.import_module, _EXCHANGE))
        from plughost.services.network.http_exchange import Dialler, certificates, exchange, tcp

        target = hop.target
        if target.scheme == "https" and self._tls is None:
            self._tls = await self._resolver.in_thread(partial(certificates, trust_env=False))
        dialler = Dialler(partial(self._resolve_allowed, access), self._connect or tcp)
        answer = await exchange(dialler, self._tls, target, hop.method, hop.headers, hop.body, self._max_body)
        return Fetched(*answer)

    async def _resolve_allowed(self, access: FetchAccess, host: str, port: int) -> list[str]:
        """All addresses of `host`; raises Denied if the host, or one of its addresses, is not granted."""
        if access.hosts is not None and not names(access.hosts, host):
            raise _denial(host)
        found = await addresses(host, self._resolve)
        is_named = self._allow_private or access.operator.reaches(host, port)
        if not is_named and not all(map(is_remote, found)):
            raise _denial(host, private=True)
        return [str(address) for address in found]


class FetchAccess(msgspec.Struct, frozen=True):
    """The hosts that one plugin may fetch from."""

    hosts: tuple[str, ...] | None
    operator: OperatorAccess


class Hop(msgspec.Struct, frozen=True):
    """One request of a chain of redirects."""

    target: UrlTarget
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None


def first_hop(request: Fetch) -> Hop:
    """Check a request and make it ready to be sent; raises InvalidSpec."""
    try:
        target = parse_url(request.url)
    except ValueError as error:
        raise InvalidSpec(f"fetch {shown(request.url)}: {error}") from None
    method = request.method.upper() or "GET"
    if not _TOKEN.fullmatch(method) or method in _REFUSED_METHODS:
        raise InvalidSpec(f"fetch {target}: the method {bounded(request.method, 32)!a} is not supported")
    headers = []
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name):
            raise InvalidSpec(f"fetch {target}: {bounded(name, 64)!a} is not a header name")
        if not _VALUE.fullmatch(value):
            raise InvalidSpec(
                f"fetch {target}: the header {bounded(name, 64)} has characters that are not printable ASCII"
            )
        if name.lower() not in _HOST_HEADERS and not name.lower().startswith("proxy-"):
            headers.append((name, value.strip()))
    given = {name.lower() for name, _ in headers}
    usual = (("Accept-Encoding", "identity"), ("User-Agent", "plughost"))
    headers += [header for header in usual if header[0].lower() not in given]
    return Hop(target, method, tuple(headers), request.body)


def next_hop(hop: Hop, answer: Fetched) -> Hop | None:
    """The request that follows a redirect response; None when the response is not a redirect."""
    location = next((value for name, value in answer.headers if name == "location"), None)
    if location is None or answer.status not in _REDIRECTS:
        return None
    try:
        target = parse_url(urljoin(hop.target.url, quote(location, safe=_URL_CHARACTERS)))
    except ValueError as error:
        raise InvalidSpec(f"fetch {hop.target}: redirected to {shown(location)}: {error}") from None
    method, headers, body = hop.method, hop.headers, hop.body
    if target.origin != hop.target.origin:
        headers = tuple(header for header in headers if header[0].lower() not in _SECRET_HEADERS)
    as_get = method == "POST" if answer.status in {301, 302} else answer.status == 303 and method != "HEAD"
    if as_get:
        method, body = "GET", None
        headers = tuple(header for header in headers if not header[0].lower().startswith("content-"))
    return Hop(target, method, headers, body)


def _denial(host: str, private: bool = False) -> Denied:
    hint = f"to allow it, grant network for the host {host}"
    if private:
        hint = (
            f"the host {host} has a private or local address, which only the operator can allow: "
            f"to allow it, grant network={host}"
        )
    return Denied("capability denied: network", hint=hint)
