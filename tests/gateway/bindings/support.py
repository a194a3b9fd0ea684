"""Drafts of bindings, and short ways to store them."""

from __future__ import annotations

from typing import Any

from plughost.gateway.bindings import lookups, table
from plughost.gateway.bindings.documents import BindingContent, BindingDocument, BindingDraft
from plughost.gateway.bindings.table import Author
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database

ORG = Scope("org_1")
PROJECT = Scope("org_1", "proj_1")
ANNA = Author("key:anna")


def draft(
    version: str = "1.0.0", *, package: str = "acme/jira", export: str = "search", **content: Any
) -> BindingDraft:
    return BindingDraft(
        package_id=package,
        package_version=version,
        export_id=export,
        content=BindingContent(**content),
    )


async def create(
    database: Database, version: str = "1.0.0", *, scope: Scope = PROJECT, **content: Any
) -> BindingDocument:
    """Stores a binding; other arguments as for `draft`."""
    return await database.write(table.create, scope, draft(version, **content), ANNA)


async def patch(
    database: Database, binding: BindingDocument, body: Any, *, expected: int | None = None
) -> BindingDocument:
    return await database.write(table.patch, ORG, binding.binding_id, body, ANNA, expected=expected)


async def get(database: Database, binding: BindingDocument) -> BindingDocument:
    return await database.read(lookups.get, ORG, binding.binding_id)


async def percents(database: Database, *bindings: BindingDocument) -> list[int]:
    return [(await get(database, each)).traffic_percent for each in bindings]


def share(percent: int) -> dict[str, Any]:
    """A patch of the share."""
    return {"rollout": {"traffic_percent": percent}}
