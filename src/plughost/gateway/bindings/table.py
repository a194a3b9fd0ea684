"""The table of bindings: transactions that create, change, delete and list bindings, and keep every revision.

Each is a generator for `Database.write` or `Database.read`, so that a change is stored together with its line
in the audit log. Changes of bindings run one after the other: each takes the next number of all changes
first, whose row is locked until the commit. So no writer loses the change of another one, the percents of two
versions change together, and readers who ask for the changes after a number miss none.

`viewer` is who asks: an organisation, which has all its bindings, or one project, which has its own only.
What belongs to others does not exist.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from plughost.gateway.bindings.documents import (
    ENCODER,
    BindingContent,
    BindingDocument,
    BindingDraft,
    BindingPage,
    RevisionDocument,
    RevisionPage,
    document_of,
    moment,
    scope_of,
)
from plughost.gateway.bindings.reading import patched
from plughost.gateway.bindings.shares import share_after
from plughost.gateway.problems import Problem, not_found
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Steps
from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.state.tenant_columns import columns

_SQL = load_statements(__file__)
NEXT_CHANGE, INSERT, FIND, VERSIONS, UPDATE, DELETE, KEEP_REVISION, REVISIONS, REVISION = (
    _SQL[name]
    for name in (
        "next_change",
        "insert",
        "find",
        "versions",
        "update",
        "delete",
        "keep_revision",
        "revisions",
        "revision",
    )
)
SECRETS_OF_ORG, OF_VERSION = _SQL["secrets_of_org"], _SQL["of_version"]

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
    order="number DESC",
)
FILTERS = ("project", "package", "version", "export", "status")
"""The filters of the list that callers may use."""
NEWEST = 2**31 - 1
"""A position before the newest revision."""


class Author(msgspec.Struct, frozen=True):
    """Who makes a change, and why: both are kept with the revision."""

    actor: str
    """Kind and id of the principal, such as `key:k_1`."""
    note: str = ""


# Changes


def create(scope: Scope, draft: BindingDraft, author: Author) -> Steps[BindingDocument]:
    """Creates a binding. The first active version of an export gets all traffic, a second one none.

    `conflict` when the version is bound already, or would be the third active one.
    """
    change = yield from next_change()
    versions = yield from _versions(scope, draft.package_id, draft.export_id)
    for row in versions:
        if row["package_version"] == draft.package_version:
            raise Problem(
                "conflict",
                f"{draft.package_id} {draft.package_version} is bound already: {row['binding_id']}",
                hint="Change that binding instead.",
            )
    content = draft.content
    active = content.status == "active"
    others = _active(versions)
    percent = share_after(
        active=active, asked=content.traffic_percent, before=None, others=_percents(others), is_new=True
    )
    insert = INSERT(
        binding_id=f"bind_{secrets.token_hex(12)}",
        number=change,
        **columns(scope),
        package_id=draft.package_id,
        package_version=draft.package_version,
        export_id=draft.export_id,
        **_content_columns(content),
        traffic_percent=percent,
        activated=change if active else None,
        now=time.time(),
    )
    row = (yield insert).rows[0]
    return (yield from _keep(change, row, author, "create"))


def patch(
    viewer: Scope, binding_id: str, body: Any, author: Author, *, expected: int | None = None
) -> Steps[BindingDocument]:
    """Applies a JSON merge patch to a binding. Without an expected revision, it applies to the current one.

    `stale` when the binding has another revision; `invalid_request` lists everything that is wrong. A patch
    that changes nothing makes no revision.
    """
    change = yield from next_change()
    row = yield from _find(viewer, binding_id, expected)
    return (yield from _change(change, row, patched(document_of(row), body), author, "patch"))


def roll_back(
    viewer: Scope, binding_id: str, revision: int, author: Author, *, expected: int | None = None
) -> Steps[BindingDocument]:
    """Gives a binding the content of an earlier revision, as a new revision. Its share is that of the
    earlier revision, too, and the other active version gets the rest."""
    change = yield from next_change()
    row = yield from _find(viewer, binding_id, expected)
    earlier = yield from get_revision(viewer, binding_id, revision)
    content = earlier.binding.content
    others = _active((yield from _versions_beside(row)))
    if content.status == "active" and not others:  # the other version of that time is gone
        content = msgspec.structs.replace(content, traffic_percent=None)
    author = msgspec.structs.replace(author, note=author.note or f"to revision {revision}")
    return (yield from _change(change, row, content, author, "rollback"))


def delete(
    viewer: Scope, binding_id: str, author: Author, *, expected: int | None = None
) -> Steps[BindingDocument]:
    """Deletes a binding, and returns it as it was. The other active version gets all traffic. Its revisions
    stay."""
    change = yield from next_change()
    row = yield from _find(viewer, binding_id, expected)
    others = _active((yield from _versions_beside(row)))
    yield DELETE(binding_id=binding_id)
    document = document_of(row)
    gone = msgspec.structs.replace(document, revision=document.revision + 1)
    yield _revision(change, gone, author, "delete")
    if row["status"] == "active":
        yield from _rebalance(others, 100, author, binding_id=binding_id)
    return document


def next_change() -> Steps[int]:
    """Begins a change of bindings: the number of the change. Others wait until this one is committed."""
    return int((yield NEXT_CHANGE()).value())


def set_share(change: int, row: Row, percent: int, author: Author, action: str) -> Steps[BindingDocument]:
    """Sets the share of an active version; the other active version gets the rest."""
    content = msgspec.structs.replace(document_of(row).content, traffic_percent=percent)
    return (yield from _change(change, row, content, author, action))


# Look-ups


def get(viewer: Scope, binding_id: str) -> Steps[BindingDocument]:
    """The binding of that id; `not_found` when the viewer has none."""
    return document_of((yield from _find(viewer, binding_id, None)))


def versions_of(scope: Scope, package_id: str, export_id: str) -> Steps[list[BindingDocument]]:
    """All bindings of an export in exactly that scope, oldest first."""
    found = yield VERSIONS(**columns(scope), package_id=package_id, export_id=export_id)
    return [document_of(row) for row in found.rows]


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


# Steps of changes


def _find(viewer: Scope, binding_id: str, expected: int | None) -> Steps[Row]:
    row = (yield FIND(binding_id=binding_id)).first()
    if row is None or not _is_visible(viewer, row):
        raise not_found("binding", binding_id)
    if expected is not None and expected != row["revision"]:
        raise Problem("stale", f"the binding has the revision {row['revision']}, not {expected}")
    return row


def _change(
    change: int, row: Row, content: BindingContent, author: Author, action: str
) -> Steps[BindingDocument]:
    """Stores the content of a binding, and the share of the other active version that follows from it."""
    was_active, active = row["status"] == "active", content.status == "active"
    before = document_of(row)
    others = _active((yield from _versions_beside(row)))
    percent = share_after(
        active=active,
        asked=content.traffic_percent,
        before=row["traffic_percent"] if was_active else None,
        others=_percents(others),
    )
    values = _content_columns(content)
    # As JSON: for Python, true and 1 are equal.
    if percent == row["traffic_percent"] and values == _content_columns(before.content):
        return before
    activated = (row["activated"] if was_active else change) if active else None
    update = UPDATE(
        binding_id=before.binding_id, **values, traffic_percent=percent, activated=activated, now=time.time()
    )
    after = yield from _keep(change, (yield update).rows[0], author, action)
    if active or was_active:
        yield from _rebalance(others, 100 - percent, author, binding_id=before.binding_id)
    return after


def _rebalance(others: Sequence[Row], percent: int, author: Author, *, binding_id: str) -> Steps[None]:
    """Gives the traffic that a binding leaves to the other active version, if there is one."""
    author = msgspec.structs.replace(author, note=f"the share of {binding_id} was changed")
    for row in others:
        if row["traffic_percent"] == percent:
            continue
        change = yield from next_change()
        content = _content_columns(document_of(row).content)
        update = UPDATE(
            binding_id=row["binding_id"],
            **content,
            traffic_percent=percent,
            activated=row["activated"],
            now=time.time(),
        )
        yield from _keep(change, (yield update).rows[0], author, "rebalance")


def _keep(change: int, row: Row, author: Author, action: str) -> Steps[BindingDocument]:
    document = document_of(row)
    yield _revision(change, document, author, action)
    return document


def _revision(change: int, document: BindingDocument, author: Author, action: str) -> Any:
    return KEEP_REVISION(
        change=change,
        binding_id=document.binding_id,
        revision=document.revision,
        **columns(document.scope),
        at=time.time(),
        actor=author.actor,
        action=action,
        note=author.note,
        document=ENCODER.encode(document).decode(),
    )


def _versions(scope: Scope, package_id: str, export_id: str) -> Steps[Sequence[Row]]:
    return (yield VERSIONS(**columns(scope), package_id=package_id, export_id=export_id)).rows


def _versions_beside(row: Row) -> Steps[Sequence[Row]]:
    """The other versions of the same export in the same scope."""
    found = yield from _versions(scope_of(row), row["package_id"], row["export_id"])
    return [each for each in found if each["binding_id"] != row["binding_id"]]


def _active(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "active"]


def _percents(rows: Sequence[Row]) -> list[int]:
    return [row["traffic_percent"] for row in rows]


def _content_columns(content: BindingContent) -> dict[str, str]:
    texts = {
        name: ENCODER.encode(getattr(content, name)).decode() for name in ("config", "secrets", "policy")
    }
    return {**texts, "status": content.status}


def _is_visible(viewer: Scope, row: Row) -> bool:
    return row["org_id"] == viewer.org_id and viewer.project_id in (None, row["project_id"])


def _revision_of(row: Row) -> RevisionDocument:
    return RevisionDocument(
        revision=row["revision"],
        at=moment(row["at"]),
        actor=row["actor"],
        action=row["action"],
        note=row["note"],
        binding=msgspec.json.decode(row["document"], type=BindingDocument),
    )
