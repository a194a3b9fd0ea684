"""All routes of the gateway's API."""

from __future__ import annotations

from litestar.types import ControllerRouterHandler

from plughost.gateway.api import audit, health, keys, openapi, secrets, tenants

ROUTES: tuple[ControllerRouterHandler, ...] = (
    health.healthz,
    health.readyz,
    openapi.openapi,
    keys.create_key,
    keys.list_keys,
    keys.revoke_key,
    tenants.create_org,
    tenants.list_orgs,
    tenants.get_org,
    tenants.rename_org,
    tenants.create_project,
    tenants.list_projects,
    tenants.get_project,
    tenants.rename_project,
    secrets.put_secret,
    secrets.list_secrets,
    secrets.delete_secret,
    audit.list_audit,
)
