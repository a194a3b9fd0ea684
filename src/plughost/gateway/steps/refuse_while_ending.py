"""A gateway that ends takes no new work."""

from __future__ import annotations

from plughost.gateway.api_request import ApiRequest
from plughost.gateway.problems import Problem


async def refuse_while_ending(request: ApiRequest) -> None:
    """Refuses everything but public routes while the gateway ends."""
    if request.services.is_ending and request.access.scope is not None:
        raise Problem("unavailable", "the gateway is shutting down", headers={"Retry-After": "2"})
