"""Documents of bindings as the API shows them: the binding, its draft, its revisions, a page of a list."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
from plughost.vai.database.statements import Row

Status: TypeAlias = Literal["active", "disabled"]

ENCODER = msgspec.json.Encoder(order="deterministic")


class Rollout(msgspec.Struct, frozen=True):
    """The share of the traffic that a version serves, in percent."""

    traffic_percent: int


class BindingContent(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a binding that callers set and change."""

    config: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    policy: BindingPolicy = BindingPolicy()
    status: Status = "active"
    traffic_percent: int | None = None
    """The share that the caller asks for; None leaves it to the rules of a rollout."""


class BindingDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A binding that is not stored yet: one version of an export, and its content."""

    package_id: str
    package_version: str
    export_id: str
    content: BindingContent = BindingContent()


class BindingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A binding as the API shows it."""

    binding_id: str
    package_id: str
    package_version: str
    export_id: str
    scope: Scope
    """Without a project_id it serves all projects of the organisation."""
    config: dict[str, Any]
    secrets: dict[str, str]
    """Slot to the name of a secret, never its value."""
    policy: BindingPolicy
    status: Status
    rollout: Rollout
    revision: int
    """Counts the changes; the ETag is made from it."""
    created_at: float
    updated_at: float

    @property
    def is_active(self) -> bool:
        return self.status == "active"

    @property
    def traffic_percent(self) -> int:
        return self.rollout.traffic_percent

    @property
    def content(self) -> BindingContent:
        """The part that callers change."""
        return BindingContent(
            config=self.config,
            secrets=self.secrets,
            policy=self.policy,
            status=self.status,
            traffic_percent=self.traffic_percent,
        )

    @property
    def draft(self) -> BindingDraft:
        """The binding as if it were to be created."""
        return BindingDraft(
            package_id=self.package_id,
            package_version=self.package_version,
            export_id=self.export_id,
            content=self.content,
        )


class RevisionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a binding: who made it, when, what it was, and the binding after it."""

    revision: int
    at: float
    actor: str
    action: str
    note: str
    """Why, where the gateway itself made the change."""
    binding: BindingDocument


class BindingPage(msgspec.Struct, frozen=True):
    """A part of a list, newest first. `position` is that of the next part; None after the last one."""

    items: tuple[BindingDocument, ...]
    position: int | None


class RevisionPage(msgspec.Struct, frozen=True):
    """A part of the revisions of a binding, newest first; `position` as in `BindingPage`."""

    items: tuple[RevisionDocument, ...]
    position: int | None


def scope_of(row: Row) -> Scope:
    """The tenant of a row."""
    return Scope(row["org_id"], row["project_id"] or None)


def binding_of(row: Row) -> Binding:
    """A row of the table as invocations use it."""
    return Binding(
        binding_id=row["binding_id"],
        package_id=row["package_id"],
        package_version=row["package_version"],
        export_id=row["export_id"],
        scope=scope_of(row),
        config=msgspec.json.decode(row["config"], type=dict[str, Any]),
        secrets=msgspec.json.decode(row["secrets"], type=dict[str, str]),
        policy=msgspec.json.decode(row["policy"], type=BindingPolicy),
    )


def document_of(row: Row) -> BindingDocument:
    """A row of the table as the API shows it."""
    return BindingDocument(
        binding_id=row["binding_id"],
        package_id=row["package_id"],
        package_version=row["package_version"],
        export_id=row["export_id"],
        scope=scope_of(row),
        config=msgspec.json.decode(row["config"], type=dict[str, Any]),
        secrets=msgspec.json.decode(row["secrets"], type=dict[str, str]),
        policy=msgspec.json.decode(row["policy"], type=BindingPolicy),
        status=row["status"],
        rollout=Rollout(row["traffic_percent"]),
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
