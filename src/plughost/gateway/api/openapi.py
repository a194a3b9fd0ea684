"""`/openapi.json`: the description of this API."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from litestar import Litestar, MediaType, Response, get

from plughost.gateway.access import public
from plughost.gateway.api_request import HttpRequest
from plughost.gateway.openapi import openapi_document


@get("/openapi.json", opt=public(), include_in_schema=False)
async def openapi(request: HttpRequest) -> Response[bytes]:
    """The OpenAPI 3.1 document."""
    return Response(_encoded(request.app), media_type=MediaType.JSON)


@lru_cache(maxsize=4)
def _encoded(app: Litestar) -> bytes:
    return msgspec.json.encode(openapi_document(app))
