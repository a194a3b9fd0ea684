"""`/healthz` and `/readyz`: whether the process lives, and whether it can work."""

from __future__ import annotations

import msgspec
from litestar import get

from plughost.gateway.access import public
from plughost.gateway.api_request import Api
from plughost.gateway.problems import Problem
from plughost.gateway.tenants import ANY_ORG


class Health(msgspec.Struct, frozen=True):
    """The state of the gateway process."""

    status: str


@get("/healthz", summary="Whether the process lives", opt=public(), tags=["health"])
async def healthz() -> Health:
    """Answers as long as the process works, whatever its database does."""
    return Health("ok")


@get("/readyz", summary="Whether the gateway can work", opt=public(), tags=["health"])
async def readyz(api: Api) -> Health:
    """Fails while the database cannot be reached, and when the gateway shuts down."""
    if api.services.is_ending:
        raise Problem("unavailable", "the gateway is shutting down", headers={"Retry-After": "2"})
    await api.services.database.read(ANY_ORG())
    return Health("ready")
