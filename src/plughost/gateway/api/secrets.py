"""`/v1/secrets`: secrets of a project. Their values are written, never read."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET, UnsetType

from plughost.gateway.access import needs, takes_json
from plughost.gateway.api.changing import respond
from plughost.gateway.api.pages import Page, caller, check_filters
from plughost.gateway.api_request import Api, ApiRequest, HttpRequest
from plughost.gateway.bindings.lookups import mapping_secret
from plughost.gateway.bindings.table import next_change
from plughost.gateway.secrets.secret_store import SecretDocument, SecretStore
from plughost.vai.database.database import Steps


class SecretRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new value of a secret, and the packages that may have it."""

    value: str
    packages: list[str] | UnsetType | None = UNSET
    """Null for any package; not given: as before."""

    def __repr__(self) -> str:
        return "<SecretRequest>"


@put(
    "/v1/secrets/{name:str}",
    summary="Store a secret",
    opt=takes_json("secrets:write", in_project=True),
    tags=["secrets"],
    status_code=200,
)
async def put_secret(
    api: Api, request: HttpRequest, name: FromPath[str], data: JSONBody[SecretRequest]
) -> Response[SecretDocument]:
    """Stores a new version of a secret. The next invocation has it, in every process."""
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "secrets.put",
        _store(api).put,
        api.tenant,
        name,
        data.value,
        data.packages,
        answer=SecretDocument,
        target=lambda secret: secret.uri,
        project_id=api.tenant.project_id,
    )
    return respond(answer)


@get("/v1/secrets", summary="List secrets", opt=needs("secrets:read", in_project=True), tags=["secrets"])
async def list_secrets(
    api: Api, request: HttpRequest, limit: FromQuery[int | None] = None, cursor: FromQuery[str | None] = None
) -> Page[SecretDocument]:
    """The names and versions of a project's secrets, newest first."""
    check_filters((), request.query_params)
    size = api.limit(limit)
    bound: dict[str, Any] = {
        "caller": caller(api),
        "route": api.route,
        "filters": {"project": api.tenant.project_id},
    }
    cursors = api.services.cursors
    after = None if cursor is None else cursors.decode(cursor, **bound)
    found = await api.services.database.read(
        _store(api).page, api.tenant, size + 1, None if after is None else (after[0], after[1])
    )
    last = found[size - 1] if len(found) > size else None
    next_cursor = None
    if last is not None:
        next_cursor = cursors.encode([last.created_at, last.name], **bound)
    return Page(found[:size], next_cursor)


@delete(
    "/v1/secrets/{name:str}",
    summary="Delete a secret",
    opt=needs("secrets:write", in_project=True),
    tags=["secrets"],
    status_code=200,
)
async def delete_secret(api: Api, name: FromPath[str]) -> Response[SecretDocument]:
    """Deletes a secret that no binding maps."""

    def in_use(uri: str) -> Steps[list[str]]:
        return (yield from mapping_secret(api.tenant.org_id, uri))

    def unit() -> Steps[SecretDocument]:
        yield from next_change()  # no binding is made meanwhile
        return (yield from _store(api).delete(api.tenant, name, in_use))

    answer = await api.services.changes.execute(
        api.change(),
        "secrets.delete",
        unit,
        answer=SecretDocument,
        target=lambda secret: secret.uri,
        project_id=api.tenant.project_id,
    )
    return respond(answer)


def _store(api: ApiRequest) -> SecretStore:
    return SecretStore(api.services.seal, api.services.now)
