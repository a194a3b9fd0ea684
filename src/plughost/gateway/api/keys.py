"""`/v1/keys`: API keys."""

from __future__ import annotations

from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from plughost.gateway.access import needs, takes_json
from plughost.gateway.api.changing import respond
from plughost.gateway.api.pages import Page, check_filters, filtered_page
from plughost.gateway.api_request import Api, ApiRequest, HttpRequest
from plughost.gateway.auth import api_keys
from plughost.gateway.auth.api_keys import ApiKey, KeyRequest, NewApiKey
from plughost.gateway.problems import not_found
from plughost.gateway.tenants import FIND_PROJECT
from plughost.vai.database.database import Steps


@post(
    "/v1/keys",
    summary="Create an API key",
    opt=takes_json("keys:write"),
    tags=["keys"],
    status_code=201,
)
async def create_key(api: Api, request: HttpRequest, data: JSONBody[KeyRequest]) -> Response[NewApiKey]:
    """Creates a key that is no wider than your own. The key itself is shown once."""
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "keys.create",
        _create,
        api,
        data,
        answer=NewApiKey,
        target=lambda key: key.key_id,
        status=201,
        once=("key",),
    )
    return respond(answer)


def _create(api: ApiRequest, wanted: KeyRequest) -> Steps[NewApiKey]:
    if wanted.project_id is not None:
        row = (yield FIND_PROJECT(project_id=wanted.project_id)).first()
        if row is None or row["org_id"] != api.principal.org_id:
            raise not_found("project", wanted.project_id)
    return (yield from api_keys.create(api.principal, wanted, api.services.now()))


@get("/v1/keys", summary="List API keys", opt=needs("keys:read"), tags=["keys"])
async def list_keys(
    api: Api,
    request: HttpRequest,
    limit: FromQuery[int | None] = None,
    cursor: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
) -> Page[ApiKey]:
    """The keys of your organisation, or of your key's project, without their secrets."""
    check_filters(("project",), request.query_params)
    own = api.principal.project_id
    filters = {"org": api.principal.org_id, "project": own or project}
    return await filtered_page(api, api_keys.LIST, filters, api_keys.api_key, limit=limit, cursor=cursor)


@delete(
    "/v1/keys/{key_id:str}",
    summary="Revoke an API key",
    opt=needs("keys:write"),
    tags=["keys"],
    status_code=200,
)
async def revoke_key(api: Api, key_id: FromPath[str]) -> Response[ApiKey]:
    """Revokes a key. Within a second, no process of the gateway accepts it."""
    answer = await api.services.changes.execute(
        api.change(),
        "keys.revoke",
        api_keys.revoke,
        api.principal,
        key_id,
        api.services.now(),
        answer=ApiKey,
        target=lambda key: key.key_id,
    )
    api.services.keys.changed()
    return respond(answer)
