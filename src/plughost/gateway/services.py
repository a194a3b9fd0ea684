"""GatewayServices: everything that the steps and handlers of a request work with."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from plughost.clock import Clock
from plughost.gateway.auth.api_keys import ApiKeys
from plughost.gateway.changes import Changes
from plughost.gateway.cursors import Cursors
from plughost.gateway.denials import Denials
from plughost.gateway.rate_limits import RateLimits
from plughost.gateway.tenants import KnownProjects
from plughost.vai.database.database import Database
from plughost.vai.database.sealing import Seal


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a gateway: what the operator decides."""

    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
    """The names in the Host header that are answered."""
    origins: frozenset[str] = frozenset()
    """Origins of other sites whose pages may use the API."""
    requests_per_second: int = 500
    """For each credential, and for all requests of one address without a valid credential."""
    max_body: int = 1 << 20
    """Bytes of a JSON body."""


class GatewayServices:
    """The database of a gateway, and what stands on it. Close it before the database."""

    def __init__(
        self,
        database: Database,
        seal: Seal,
        clock: Clock,
        options: GatewayOptions | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.seal = seal
        self.clock = clock
        self.options = options or GatewayOptions()
        self.now = now
        self.changes = Changes(database, seal, now)
        self.cursors = Cursors(seal)
        self.keys = ApiKeys(database, clock, now)
        self.projects = KnownProjects(database)
        self.limits = RateLimits(clock, self.options.requests_per_second)
        self.denials = Denials(database, clock)
        self.is_ending = False
        """Whether the gateway ends: new work is refused."""

    async def close(self) -> None:
        """Stores what waits to be stored."""
        await self.keys.close()
        await self.denials.close()
