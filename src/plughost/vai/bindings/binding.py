"""Which export serves whom, and what it is given: the values that an invocation starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Scope(msgspec.Struct, frozen=True):
    """A tenant: an organisation, or one project of it."""

    org_id: str
    project_id: str | None = None


class BindingPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a binding or the host allows of what the manifest asks; None narrows nothing."""

    network: str | None = None
    egress_domains: tuple[str, ...] | None = None
    """The hosts that may be reached; None is any public one."""
    filesystem: str | None = None
    scopes: frozenset[str] | None = None
    timeout_ms: int | None = None
    max_concurrency: int | None = None
    execution_class: str | None = None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One export of one package version, bound to a tenant with its config and its secrets' places."""

    binding_id: str
    package_id: str
    package_version: str
    export_id: str
    scope: Scope
    config: Mapping[str, Any] = {}
    secrets: Mapping[str, str] = {}
    """Slot to `secret://…`: where the value is, never the value."""
    policy: BindingPolicy = BindingPolicy()


def tenant_of(binding: Binding, project_id: str | None) -> Scope:
    """Whom it serves: its project, or the one that an organisation's binding is used for."""
    scope = binding.scope
    return scope if scope.project_id is not None else Scope(scope.org_id, project_id)
