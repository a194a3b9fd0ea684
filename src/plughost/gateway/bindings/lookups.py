"""Look-ups of bindings: one, a page of a list, its revisions, and who uses a secret or a package version.

`viewer` is who asks: an organisation, which has all its bindings, or one project, which has its own only.
What belongs to others does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from plughost.gateway.bindings.documents import (
    BindingDocument,
    BindingPage,
    RevisionDocument,
    RevisionPage,
    document_of,
    scope_of,
)
from plughost.gateway.problems import Problem, not_found
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Steps
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.state.tenant_columns import columns

_SQL = load_statements(__file__)
FIND, VERSIONS, REVISIONS, REVISION, SECRETS_OF_ORG, OF_VERSION = (
    _SQL[name] for name in ("find", "versions", "revisions", "revision", "secrets_of_org", "of_version")
)

LIST = Filters(
    "SELECT binding_id, number, org_id, project_id, package_id, package_version, export_id, config, secrets, "
    "policy, status, traffic_percent, activated, revision, created_at, updated_at FROM bindings",
    equal={
        "org": "org_id",
        "project": "project_id",
        "package": "package_id",
        "version": "package_version",
        "export": "export_id",
        "status": "status",
    },
    at_least={},
    below={"before": "number"},
    needs={
        **dict.fromkeys(("project", "package", "export", "status", "before"), "org"),
        "version": "package",
    },
    newest_first=("number",),
)
FILTERS = ("project", "package", "version", "export", "status")
"""The filters of the list that callers may use."""
NEWEST = 2**31 - 1
"""A position before the newest revision."""


def get(viewer: Scope, binding_id: str) -> Steps[BindingDocument]:
    """The binding of that id; `not_found` when the viewer has none."""
    return document_of((yield from find_row(viewer, binding_id)))


def versions_of(scope: Scope, package_id: str, export_id: str) -> Steps[list[BindingDocument]]:
    """All bindings of an export in exactly that scope, oldest first."""
    return [document_of(row) for row in (yield from version_rows(scope, package_id, export_id))]


def page(
    viewer: Scope, filters: Mapping[str, str | None], before: int | None, limit: int
) -> Steps[BindingPage]:
    """Some bindings, newest first, from a position on. `unknown_filter` for one that is not in `FILTERS`."""
    given = {name: value for name, value in filters.items() if value is not None}
    if unknown := [name for name in given if name not in FILTERS]:
        raise Problem(
            "unknown_filter", f"there is no filter {unknown[0][:200]}; there are {', '.join(FILTERS)}"
        )
    if "version" in given and "package" not in given:
        raise Problem("invalid_request", "the filter version works only together with package")
    if viewer.project_id is not None:
        if given.get("project", viewer.project_id) != viewer.project_id:
            return BindingPage((), None)
        given["project"] = viewer.project_id
    rows = (yield LIST.query({**given, "org": viewer.org_id, "before": before}, limit + 1)).rows
    items = tuple(document_of(row) for row in rows[:limit])
    return BindingPage(items, rows[limit - 1]["number"] if len(rows) > limit else None)


def revisions(viewer: Scope, binding_id: str, before: int | None, limit: int) -> Steps[RevisionPage]:
    """The revisions of a binding, newest first, from a position on; also of a deleted one."""
    rows = (yield REVISIONS(binding_id=binding_id, before=before or NEWEST, limit=limit + 1)).rows
    seen = [row for row in rows if _is_visible(viewer, row)]
    if not seen and before is None:
        raise not_found("binding", binding_id)
    items = tuple(_revision_of(row) for row in seen[:limit])
    return RevisionPage(items, items[-1].revision if len(seen) > limit else None)


def get_revision(viewer: Scope, binding_id: str, revision: int) -> Steps[RevisionDocument]:
    """One revision of a binding; `not_found` when there is none."""
    if not 0 < revision <= NEWEST:
        raise not_found("revision", str(revision))
    row = (yield REVISION(binding_id=binding_id, revision=revision)).first()
    if row is None or not _is_visible(viewer, row):
        raise not_found("revision", str(revision))
    return _revision_of(row)


def mapping_secret(org_id: str, uri: str) -> Steps[list[str]]:
    """The ids of an organisation's bindings that map a secret. A change that depends on the answer calls
    `next_change` first, so that no binding is made meanwhile."""
    rows = (yield SECRETS_OF_ORG(org_id=org_id)).rows
    return [
        row["binding_id"]
        for row in rows
        if uri in msgspec.json.decode(row["secrets"], type=dict[str, str]).values()
    ]


def binding_version(
    org_id: str, package_id: str, package_version: str, *, active_only: bool = False
) -> Steps[list[str]]:
    """The ids of an organisation's bindings of a package version; see `mapping_secret`."""
    rows = (yield OF_VERSION(org_id=org_id, package_id=package_id, package_version=package_version)).rows
    return [row["binding_id"] for row in rows if row["status"] == "active" or not active_only]


def find_row(viewer: Scope, binding_id: str, expected: int | None = None) -> Steps[Row]:
    """The row of a binding; `not_found` when the viewer has none, `stale` for another revision."""
    row = (yield FIND(binding_id=binding_id)).first()
    if row is None or not _is_visible(viewer, row):
        raise not_found("binding", binding_id)
    if expected is not None and expected != row["revision"]:
        raise Problem("stale", f"the binding has the revision {row['revision']}, not {expected}")
    return row


def version_rows(scope: Scope, package_id: str, export_id: str) -> Steps[Sequence[Row]]:
    """The rows of all bindings of an export in exactly that scope, oldest first."""
    return (yield VERSIONS(**columns(scope), package_id=package_id, export_id=export_id)).rows


def versions_beside(row: Row) -> Steps[Sequence[Row]]:
    """The other versions of the same export in the same scope."""
    found = yield from version_rows(scope_of(row), row["package_id"], row["export_id"])
    return [each for each in found if each["binding_id"] != row["binding_id"]]


def _is_visible(viewer: Scope, row: Row) -> bool:
    return row["org_id"] == viewer.org_id and viewer.project_id in (None, row["project_id"])


def _revision_of(row: Row) -> RevisionDocument:
    return RevisionDocument(
        revision=row["revision"],
        at=row["at"],
        actor=row["actor"],
        action=row["action"],
        note=row["note"],
        binding=msgspec.json.decode(row["document"], type=BindingDocument),
    )
