"""The table of bindings: transactions that create, change and delete bindings, and keep every revision.

Each is a generator for `Database.write`, so that a change is stored together with its line in the audit log.
Changes of bindings run one after the other: each takes the next number of all changes first, whose row is
locked until the commit. So no writer loses the change of another one, the percents of two versions change
together, and readers who ask for the changes after a number miss none.

`viewer` is who asks; see `lookups`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from plughost.gateway.bindings.documents import (
    ENCODER,
    BindingContent,
    BindingDocument,
    BindingDraft,
    document_of,
    scope_of,
)
from plughost.gateway.bindings.lookups import find_row, get_revision, version_rows, versions_beside
from plughost.gateway.bindings.reading import invalid, patched
from plughost.gateway.bindings.shares import share_after
from plughost.gateway.problems import FieldError, Problem
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Steps
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.state.tenant_columns import columns

_SQL = load_statements(__file__)
NEXT_CHANGE, INSERT, UPDATE, DELETE, KEEP_REVISION = (
    _SQL[name] for name in ("next_change", "insert", "update", "delete", "keep_revision")
)

ContentCheck = Callable[[Scope, str, BindingContent], Steps[list[FieldError]]]
"""Checks the content of a binding within the transaction that stores it, such as whether its secrets exist
and may be mapped. Called with the scope, the package_id and the content."""


class Author(msgspec.Struct, frozen=True):
    """Who makes a change, and why: both are kept with the revision."""

    actor: str
    """Kind and id of the principal, such as `key:k_1`."""
    note: str = ""


def create(
    scope: Scope, draft: BindingDraft, author: Author, *, check: ContentCheck | None = None
) -> Steps[BindingDocument]:
    """Creates a binding. The first active version of an export gets all traffic, a second one none.

    `conflict` when the version is bound already, or would be the third active one.
    """
    change = yield from next_change()
    versions = yield from version_rows(scope, draft.package_id, draft.export_id)
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
    yield from _check(check, scope, draft.package_id, content)
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
    viewer: Scope,
    binding_id: str,
    body: Any,
    author: Author,
    *,
    expected: int | None = None,
    check: ContentCheck | None = None,
) -> Steps[BindingDocument]:
    """Applies a JSON merge patch to a binding. Without an expected revision, it applies to the current one.

    `stale` when the binding has another revision; `invalid_request` lists everything that is wrong. A patch
    that changes nothing makes no revision.
    """
    change = yield from next_change()
    row = yield from find_row(viewer, binding_id, expected)
    content = patched(document_of(row), body)
    yield from _check(check, scope_of(row), row["package_id"], content)
    return (yield from _change(change, row, content, author, "patch"))


def roll_back(
    viewer: Scope,
    binding_id: str,
    revision: int,
    author: Author,
    *,
    expected: int | None = None,
    check: ContentCheck | None = None,
) -> Steps[BindingDocument]:
    """Gives a binding the content of an earlier revision, as a new revision. Its share is that of the
    earlier revision, too, and the other active version gets the rest."""
    change = yield from next_change()
    row = yield from find_row(viewer, binding_id, expected)
    earlier = yield from get_revision(viewer, binding_id, revision)
    content = earlier.binding.content
    others = _active((yield from versions_beside(row)))
    if content.status == "active" and not others:  # the other version of that time is gone
        content = msgspec.structs.replace(content, traffic_percent=None)
    yield from _check(check, scope_of(row), row["package_id"], content)
    author = msgspec.structs.replace(author, note=author.note or f"to revision {revision}")
    return (yield from _change(change, row, content, author, "rollback"))


def delete(
    viewer: Scope, binding_id: str, author: Author, *, expected: int | None = None
) -> Steps[BindingDocument]:
    """Deletes a binding, and returns it as it was. The other active version gets all traffic. Its revisions
    stay."""
    change = yield from next_change()
    row = yield from find_row(viewer, binding_id, expected)
    others = _active((yield from versions_beside(row)))
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


# Steps of changes


def _check(check: ContentCheck | None, scope: Scope, package_id: str, content: BindingContent) -> Steps[None]:
    if check is not None and (errors := (yield from check(scope, package_id, content))):
        raise invalid(errors)


def _change(
    change: int, row: Row, content: BindingContent, author: Author, action: str
) -> Steps[BindingDocument]:
    """Stores the content of a binding, and the share of the other active version that follows from it."""
    was_active, active = row["status"] == "active", content.status == "active"
    before = document_of(row)
    others = _active((yield from versions_beside(row)))
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


def _active(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "active"]


def _percents(rows: Sequence[Row]) -> list[int]:
    return [row["traffic_percent"] for row in rows]


def _content_columns(content: BindingContent) -> dict[str, str]:
    texts = {
        name: ENCODER.encode(getattr(content, name)).decode() for name in ("config", "secrets", "policy")
    }
    return {**texts, "status": content.status}
