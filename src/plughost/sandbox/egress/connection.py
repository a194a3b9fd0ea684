"""The record of one connection through the egress proxy, and the limits of a plugin's connections."""

from __future__ import annotations

from typing import Literal

import msgspec

from plughost.permissions.access import Endpoint

Verdict = Literal["made", "refused", "failed"]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One connection that a plugin asked for, recorded when it is over."""

    host: str
    """The canonical host; empty when the request could not be parsed."""
    port: int
    asked: str = ""
    """The request line, when it could not be parsed."""
    address: str
    """The address that was dialled; empty when none was."""
    verdict: Verdict
    """`failed`: allowed, but the server could not be reached."""
    why: str
    """Why there was no connection, or how it ended."""
    wanting: Endpoint | None = None
    """The endpoint that would have to be granted; None when no grant would have allowed it."""
    up: int
    """Bytes to the server."""
    down: int
    seconds: float


class EgressLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one plugin instance. Whatever exceeds them waits, unread, at the plugin's side."""

    connections: int = 64
    """Open at once."""
    connections_per_second: int = 256
    head: int = 8 << 10
    """Bytes of a request to the proxy."""
    head_seconds: float = 10.0
    """Timeout for a complete request, and again for a complete ClientHello."""
    connect_seconds: float = 15.0
    """Timeout for the name lookup and all addresses together."""
    idle_seconds: float = 600.0
    """Timeout without a byte in either direction."""
    half_closed_seconds: float = 60.0
    """The same once one side has finished sending."""
    bytes_per_connection: int = 16 << 30
    """Both directions together."""
    bytes_in_all: int = 256 << 30
