"""`/v1/audit`: the audit log."""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.params import FromQuery

from plughost.gateway import audit
from plughost.gateway.access import needs
from plughost.gateway.api.pages import Page, check_filters, filtered_page
from plughost.gateway.api_request import Api, HttpRequest
from plughost.vai.database.statements import Row

FILTERS = ("action", "actor", "target", "outcome", "since", "until")


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log."""

    at: float
    org_id: str
    project_id: str
    actor: str
    action: str
    target: str
    outcome: str
    address: str
    request_id: str


@get("/v1/audit", summary="Read the audit log", opt=needs("audit:read"), tags=["audit"])
async def list_audit(
    api: Api,
    request: HttpRequest,
    limit: FromQuery[int | None] = None,
    cursor: FromQuery[str | None] = None,
    action: FromQuery[str | None] = None,
    actor: FromQuery[str | None] = None,
    target: FromQuery[str | None] = None,
    outcome: FromQuery[str | None] = None,
    since: FromQuery[float | None] = None,
    until: FromQuery[float | None] = None,
) -> Page[AuditLine]:
    """Who did what in your organisation, newest first: changes, and requests that were refused."""
    check_filters(FILTERS, request.query_params)
    filters = {
        "org": api.principal.org_id,
        "action": action,
        "actor": actor,
        "target": target,
        "outcome": outcome,
        "since": since,
        "until": until,
    }
    return await filtered_page(api, audit.LIST, filters, _line, limit=limit, cursor=cursor)


def _line(row: Row) -> AuditLine:
    return AuditLine(**{name: row[name] for name in AuditLine.__struct_fields__})
