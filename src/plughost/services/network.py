"""Fetching for plugins: each hop of each request through the whole guard.

What is allowed is asked where the connection is opened (`exchange.Dialler`): a name is looked up once, every
answer is checked, and the addresses that were checked are the ones dialled. Nothing is shared between two
fetches, no connection and no cookie, so one plugin's grants never carry another's request.

Bodies are handed through as they came. Unless the plugin says otherwise the server is asked for no encoding,
and a body that is encoded all the same stays so, with its Content-Encoding: the host unpacks nothing, so
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

from plughost.base.errors import Denied, InvalidSpec, Stopped
from plughost.base.text import bounded
from plughost.guard.addresses import Target, names, parse_url, shown
from plughost.guard.lookup import Lookup, Resolve, addresses, leads_away
from plughost.guard.operators_word import OperatorsWord

if TYPE_CHECKING:
    import ssl

    from plughost.services.exchange import Connect

NOTHING_SAID = OperatorsWord()
RESOLVERS = 4
"""Threads that look names up."""

_EXCHANGE = "plughost.services.exchange"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~]*")
_NO_METHODS = {"CONNECT", "TRACE", "TRACK"}
_OURS = {
    *("host", "connection", "keep-alive", "transfer-encoding", "content-length"),
    *("upgrade", "http2-settings", "te", "trailer", "expect"),
}
_SECRETS = {"authorization", "cookie"}
_REDIRECTS = {301, 302, 303, 307, 308}
_IN_URLS = string.punctuation.replace("\\", "")


class Fetch(msgspec.Struct, frozen=True):
    """A request. Headers about the connection (Host, Content-Length, Proxy-* …) are ours and are ignored."""

    url: str
    method: str = ""
    """Empty for GET."""
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Fetched(msgspec.Struct, frozen=True):
    """The last answer, whatever its status; header names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Network:
    """`timeout` is for a whole fetch: its turn, every hop, the last byte. `max_body` is for each answer.

    `tls` replaces the usual certificate authorities. `resolve` and `connect` replace the machine's own.
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
        self._allow_private = allow_private
        self._max_body = max_body
        self._timeout = timeout
        self._max_redirects = max_redirects
        self._turns = asyncio.Semaphore(at_once)
        self._tls = tls
        self._lookup = Lookup(RESOLVERS, "plughost-network")
        self._resolve = resolve or self._lookup
        self._connect = connect
        self._running: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._closed = False

    async def fetch(
        self, hosts: tuple[str, ...] | None, request: Fetch, word: OperatorsWord = NOTHING_SAID
    ) -> Fetched:
        """`hosts` are the only ones asked; None is any. All are asked at public addresses only, but for those
        that the operator's own `word` names."""
        if self._closed:
            raise Stopped("the host's network service is closed")
        hop = first_hop(request)
        try:
            async with asyncio.timeout(self._timeout) as limit:
                self._running.add(limit)
                try:
                    async with self._turns:
                        return await self._follow(Reach(hosts, word), hop)
                finally:
                    self._running.discard(limit)
                    if not self._running:
                        self._idle.set()
        except TimeoutError as error:
            if self._closed:
                raise Stopped("the host's network service was closed") from error
            raise InvalidSpec(f"fetch {hop.target}: not done within {self._timeout:g} s") from error

    async def close(self) -> None:
        """Ends what is under way and returns when its connections are closed."""
        self._closed = True
        self._idle.clear()
        for limit in self._running:
            if not limit.expired():
                limit.reschedule(0)
        if self._running:
            await self._idle.wait()

    async def _follow(self, reach: Reach, hop: Hop) -> Fetched:
        start = hop.target
        for _ in range(self._max_redirects + 1):
            answer = await self._ask(reach, hop)
            following = next_hop(hop, answer)
            if following is None:
                return answer
            hop = following
        raise InvalidSpec(f"fetch {start}: more than {self._max_redirects} redirects")

    async def _ask(self, reach: Reach, hop: Hop) -> Fetched:
        if _EXCHANGE not in sys.modules:  # httpx takes a sixth of a second: the loop serves others meanwhile
            await self._lookup.in_thread(partial(importlib.import_module, _EXCHANGE))
        from plughost.services.exchange import Dialler, certificates, exchange, tcp

        target = hop.target
        if target.scheme == "https" and self._tls is None:
            self._tls = await self._lookup.in_thread(partial(certificates, trust_env=False))
        dialler = Dialler(partial(self._admit, reach), self._connect or tcp)
        answer = await exchange(dialler, self._tls, target, hop.method, hop.headers, hop.body, self._max_body)
        return Fetched(*answer)

    async def _admit(self, reach: Reach, host: str, port: int) -> list[str]:
        """The addresses that may be dialled for `host`: all that it has, or Denied."""
        if reach.hosts is not None and not names(reach.hosts, host):
            raise _denied(host)
        found = await addresses(host, self._resolve)
        is_named = self._allow_private or reach.word.reaches(host, port)
        if not is_named and not all(map(leads_away, found)):
            raise _denied(host, private=True)
        return [str(address) for address in found]


class Reach(msgspec.Struct, frozen=True):
    """Which hosts one plugin may have fetched from."""

    hosts: tuple[str, ...] | None
    word: OperatorsWord


class Hop(msgspec.Struct, frozen=True):
    """One request on the way to the answer."""

    target: Target
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None


def first_hop(request: Fetch) -> Hop:
    """The request as it will be sent, or InvalidSpec."""
    try:
        target = parse_url(request.url)
    except ValueError as error:
        raise InvalidSpec(f"fetch {shown(request.url)}: {error}") from None
    method = request.method.upper() or "GET"
    if not _TOKEN.fullmatch(method) or method in _NO_METHODS:
        raise InvalidSpec(f"fetch {target}: the method {bounded(request.method, 32)!a} is not sent")
    headers = []
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name):
            raise InvalidSpec(f"fetch {target}: {bounded(name, 64)!a} is no header name")
        if not _VALUE.fullmatch(value):
            raise InvalidSpec(f"fetch {target}: the header {bounded(name, 64)} is not all printable ASCII")
        if name.lower() not in _OURS and not name.lower().startswith("proxy-"):
            headers.append((name, value.strip()))
    given = {name.lower() for name, _ in headers}
    usual = (("Accept-Encoding", "identity"), ("User-Agent", "plughost"))
    headers += [header for header in usual if header[0].lower() not in given]
    return Hop(target, method, tuple(headers), request.body)


def next_hop(hop: Hop, answer: Fetched) -> Hop | None:
    """Where a redirect leads, and what is sent there; None when the answer is the answer."""
    location = next((value for name, value in answer.headers if name == "location"), None)
    if location is None or answer.status not in _REDIRECTS:
        return None
    try:
        target = parse_url(urljoin(hop.target.url, quote(location, safe=_IN_URLS)))
    except ValueError as error:
        raise InvalidSpec(f"fetch {hop.target}: redirected to {shown(location)}: {error}") from None
    method, headers, body = hop.method, hop.headers, hop.body
    if target.origin != hop.target.origin:
        headers = tuple(header for header in headers if header[0].lower() not in _SECRETS)
    as_get = method == "POST" if answer.status in {301, 302} else answer.status == 303 and method != "HEAD"
    if as_get:
        method, body = "GET", None
        headers = tuple(header for header in headers if not header[0].lower().startswith("content-"))
    return Hop(target, method, headers, body)


def _denied(host: str, private: bool = False) -> Denied:
    hint = f"to allow it, grant network for the host {host}"
    if private:
        hint = (
            f"the host {host} has a private address or one of this machine; only the operator can open it: "
            f"to allow it, grant network={host}"
        )
    return Denied("capability denied: network", hint=hint)
