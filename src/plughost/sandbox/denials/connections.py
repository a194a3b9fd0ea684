"""Classifies refused connections of a plugin: which grant would allow them. Pure decisions over values."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import is_public, literal
from plughost.sandbox.denials import grant_hint
from plughost.sandbox.egress.connect import match_grant
from plughost.sandbox.egress.connection import Connection

NAME_SERVER = 53
ANY_NAME = "HOST:PORT"
"""Stands for the host name that was looked up: the watcher sees only the name server's address."""


def parse(text: str) -> Endpoint | None:
    """Parse the watcher's record of a connection: an address, a space and a port. None when it is
    malformed."""
    host, _, digits = text.partition(" ")
    try:
        address, port = ipaddress.ip_address(host), int(digits)
    except ValueError:
        return None
    return wanted(str(address), port) if 0 < port < 65536 and "%" not in host else None


def wanted(host: str, port: int) -> Endpoint:
    """The endpoint to grant for a canonical host and port: `private` when the address is not public,
    IPv4-mapped addresses as IPv4."""
    address = literal(host)
    if address is None:
        return Endpoint(host, port, private=host == "localhost" or host.endswith(".localhost"))
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return Endpoint(str(inner or address), port, private=not is_public(address))


def classify_connection(dialled: Endpoint, endpoints: Iterable[Endpoint]) -> tuple[str, str, str]:
    """A connection that bypassed the proxy: its target, why it was refused, and the remedy where a grant does
    not help."""
    place = str(Endpoint(dialled.host, dialled.port))
    if dialled.port == NAME_SERVER:
        return "to a host by its name", "only granted host names can be looked up", ""
    if match_grant(endpoints, dialled.host, dialled.port) is not None:
        return (
            place,
            "connected directly instead of through the proxy",
            "use the proxy in HTTPS_PROXY for a granted address; a granted host name works with any client",
        )
    return place, "not granted", ""


def grant_for(connection: Connection, granting: Mapping[str, str]) -> str:
    """The grant (or other remedy) for a connection that the proxy refused, as text."""
    if connection.wanting is not None:
        return str(grant_hint.grant_hint("connect", connection.wanting, granting))
    if connection.host:
        return "the TLS server name must be the host that was connected to"
    return "the request was not a valid CONNECT request"
