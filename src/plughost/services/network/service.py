"""NetworkService: HTTP requests of plugins, limited by the plugin's capabilities."""

from __future__ import annotations

from typing import Protocol

from plughost.engine.caller import Caller
from plughost.services.base import BaseService
from plughost.services.caller_access import network_hosts, operator_access
from plughost.services.network.fetch import Fetch, Fetched, Network
from plughost.wire.base64_bytes import Octets, decode_plain


class ToFetch(Protocol):
    """Params of an HTTP request."""

    url: str
    method: str
    body: Octets | None
    headers: list[tuple[str, str]]


class NetworkService(BaseService):
    """The network service: HTTP requests on behalf of plugins, to the hosts that were granted."""

    def __init__(self, network: Network | None = None) -> None:
        self._network = network or Network()

    async def fetch(self, caller: Caller, params: ToFetch) -> Fetched:
        """Make an HTTP request for a plugin."""
        body = None if params.body is None else decode_plain(params.body)
        request = Fetch(params.url, params.method, body, tuple(params.headers))
        return await self._network.fetch(network_hosts(caller), request, operator_access(caller))

    async def close(self) -> None:
        await self._network.close()
