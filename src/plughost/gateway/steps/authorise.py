"""What is allowed: the scope of the route, and the project that the request is about."""

from __future__ import annotations

from plughost.gateway.api_request import ApiRequest

PROJECT_HEADER = "vai-project"


async def authorise(request: ApiRequest) -> None:
    """Checks the scope that the route needs, and finds the tenant."""
    access = request.access
    if access.scope is None:
        return
    request.principal.check(access.scope)
    if access.in_project:
        tenant = request.principal.tenant(request.header(PROJECT_HEADER) or None)
        await request.services.projects.check(tenant)
        request.tenant = tenant
