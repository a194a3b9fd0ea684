"""How often: requests of one credential per second."""

from __future__ import annotations

from plughost.gateway.api_request import ApiRequest


async def limit_rate(request: ApiRequest) -> None:
    """Counts the request for its principal."""
    if request.has_principal:
        principal = request.principal
        request.services.limits.take(f"{principal.kind}:{principal.id}")
