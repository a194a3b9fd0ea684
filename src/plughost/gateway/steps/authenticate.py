"""Who asks: the principal of the credential in the Authorization header."""

from __future__ import annotations

from plughost.gateway.api_request import ApiRequest
from plughost.gateway.problems import Problem

MAX_CREDENTIAL = 4096
"""Characters of a credential; a longer one is refused unread."""


async def authenticate(request: ApiRequest) -> None:
    """Finds the principal; a public route has none."""
    if request.access.scope is None:
        return
    header = request.header("authorization")
    scheme, _, credential = header.partition(" ")
    if not header or scheme.lower() != "bearer" or len(credential) > MAX_CREDENTIAL:
        request.services.limits.take(f"address:{request.address}")
        raise Problem(
            "unauthenticated",
            "there is no bearer credential" if header else "the Authorization header is missing",
            headers={"WWW-Authenticate": 'Bearer realm="plughost"'},
        )
    try:
        request.principal = await request.services.keys.verify(credential.strip())
    except Problem as problem:
        request.services.limits.take(f"address:{request.address}")
        problem.headers.setdefault("WWW-Authenticate", 'Bearer realm="plughost"')
        raise
