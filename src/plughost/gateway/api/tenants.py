"""`/v1/orgs` and `/v1/projects`: tenants."""

from __future__ import annotations

import msgspec
from litestar import Response, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from plughost.gateway import tenants
from plughost.gateway.access import needs, takes_json, takes_patch
from plughost.gateway.api.changing import etag, respond
from plughost.gateway.api.pages import Page, check_filters, filtered_page
from plughost.gateway.api_request import Api, HttpRequest
from plughost.gateway.auth.scopes import ADMIN
from plughost.gateway.problems import Problem, not_found
from plughost.gateway.tenants import Org, Project


class NameRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of an organisation or a project."""

    name: str


@post(
    "/v1/orgs",
    summary="Create an organisation",
    opt=takes_json(ADMIN),
    tags=["tenants"],
    status_code=201,
)
async def create_org(api: Api, request: HttpRequest, data: JSONBody[NameRequest]) -> Response[Org]:
    """Creates an organisation. Only the first key of the gateway may do that."""
    if not api.principal.is_operator:
        raise Problem("forbidden", "only the first key of the gateway makes organisations")
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "orgs.create",
        tenants.create_org,
        data.name,
        api.services.now(),
        answer=Org,
        target=lambda org: org.org_id,
        status=201,
    )
    return respond(answer)


@get("/v1/orgs", summary="List organisations", opt=needs(ADMIN), tags=["tenants"])
async def list_orgs(
    api: Api, request: HttpRequest, limit: FromQuery[int | None] = None, cursor: FromQuery[str | None] = None
) -> Page[Org]:
    """Your organisation; for the first key of the gateway, all of them."""
    check_filters((), request.query_params)
    filters = {"org": None if api.principal.is_operator else api.principal.org_id}
    return await filtered_page(api, tenants.ORGS, filters, tenants.org, limit=limit, cursor=cursor)


@get("/v1/orgs/{org_id:str}", summary="Read an organisation", opt=needs(ADMIN), tags=["tenants"])
async def get_org(api: Api, org_id: FromPath[str]) -> Response[Org]:
    """One organisation."""
    row = (await api.services.database.read(tenants.FIND_ORG(org_id=org_id))).first()
    if row is None or (row["org_id"] != api.principal.org_id and not api.principal.is_operator):
        raise not_found("organisation", org_id)
    document = tenants.org(row)
    return Response(document, headers=etag(document))


@patch(
    "/v1/orgs/{org_id:str}",
    summary="Rename an organisation",
    opt=takes_patch(ADMIN),
    tags=["tenants"],
)
async def rename_org(
    api: Api, request: HttpRequest, org_id: FromPath[str], data: JSONBody[NameRequest]
) -> Response[Org]:
    """Renames an organisation. With If-Match, only if nobody changed it since."""
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "orgs.update",
        tenants.rename_org,
        api.principal,
        org_id,
        data.name,
        api.expected_revision(),
        answer=Org,
        target=lambda org: org.org_id,
    )
    return respond(answer)


@post("/v1/projects", summary="Create a project", opt=takes_json(ADMIN), tags=["tenants"], status_code=201)
async def create_project(api: Api, request: HttpRequest, data: JSONBody[NameRequest]) -> Response[Project]:
    """Creates a project of your organisation."""
    if api.principal.project_id is not None:
        raise Problem("forbidden", "a key of one project makes no other")
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "projects.create",
        tenants.create_project,
        api.principal.org_id,
        data.name,
        api.services.now(),
        answer=Project,
        target=lambda project: project.project_id,
        status=201,
    )
    return respond(answer)


@get("/v1/projects", summary="List projects", opt=needs(ADMIN), tags=["tenants"])
async def list_projects(
    api: Api, request: HttpRequest, limit: FromQuery[int | None] = None, cursor: FromQuery[str | None] = None
) -> Page[Project]:
    """The projects of your organisation, or your key's only one."""
    check_filters((), request.query_params)
    filters = {"org": api.principal.org_id, "project": api.principal.project_id}
    return await filtered_page(api, tenants.PROJECTS, filters, tenants.project, limit=limit, cursor=cursor)


@get("/v1/projects/{project_id:str}", summary="Read a project", opt=needs(ADMIN), tags=["tenants"])
async def get_project(api: Api, project_id: FromPath[str]) -> Response[Project]:
    """One project."""
    row = (await api.services.database.read(tenants.FIND_PROJECT(project_id=project_id))).first()
    if row is None or not tenants.is_visible(api.principal, row):
        raise not_found("project", project_id)
    document = tenants.project(row)
    return Response(document, headers=etag(document))


@patch(
    "/v1/projects/{project_id:str}",
    summary="Rename a project",
    opt=takes_patch(ADMIN),
    tags=["tenants"],
)
async def rename_project(
    api: Api, request: HttpRequest, project_id: FromPath[str], data: JSONBody[NameRequest]
) -> Response[Project]:
    """Renames a project. With If-Match, only if nobody changed it since."""
    answer = await api.services.changes.execute(
        api.change(await request.body()),
        "projects.update",
        tenants.rename_project,
        api.principal,
        project_id,
        data.name,
        api.expected_revision(),
        answer=Project,
        target=lambda project: project.project_id,
    )
    return respond(answer)
