"""What is kept of a connection of a confined plugin, and how much of everything it may have."""

from __future__ import annotations

from typing import Literal

import msgspec

from plughost.permissions.access import Endpoint

Verdict = Literal["made", "refused", "failed"]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One connection that a plugin wanted, told when it is over."""

    host: str
    """In its one spelling; empty when it could not be read."""
    port: int
    asked: str = ""
    """What was asked for, where that could not be read."""
    address: str
    """Where the host's name led; empty when nothing was dialled."""
    verdict: Verdict
    """`failed`: allowed, but the other side could not be reached."""
    why: str
    """Why there was none, or how it ended."""
    wanting: Endpoint | None = None
    """What would have to be granted; None when no grant would have allowed it."""
    up: int
    """Bytes to the server."""
    down: int
    seconds: float


class EgressLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one plugin instance. What comes above waits, unread, at its own side."""

    connections: int = 64
    """At once."""
    connections_per_second: int = 256
    head: int = 8 << 10
    """Bytes of a request to the proxy."""
    head_seconds: float = 10.0
    """For a request, and again for a ClientHello, to be whole."""
    connect_seconds: float = 15.0
    """For the lookup and all addresses tried."""
    idle_seconds: float = 600.0
    """Without a byte either way."""
    half_closed_seconds: float = 60.0
    """The same once one side has said that it is done."""
    bytes_per_connection: int = 16 << 30
    """Both ways together."""
    bytes_in_all: int = 256 << 30
