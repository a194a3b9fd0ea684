"""Binding: an export of a package, bound to a tenant with its configuration, secrets and policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Scope(msgspec.Struct, frozen=True):
    """A tenant: an organisation, or one project of it."""

    org_id: str
    project_id: str | None = None


class BindingPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that a binding or the host sets on what a manifest asks for; None sets no limit."""

    network: str | None = None
    egress_domains: tuple[str, ...] | None = None
    """The hosts that may be reached; None allows any public host."""
    filesystem: str | None = None
    scopes: frozenset[str] | None = None
    timeout_ms: int | None = None
    max_concurrency: int | None = None
    execution_class: str | None = None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One export of one package version, bound to a tenant, with its configuration and the names of its
    secrets."""

    binding_id: str
    package_id: str
    package_version: str
    export_id: str
    scope: Scope
    config: Mapping[str, Any] = {}
    secrets: Mapping[str, str] = {}
    """Slot to `secret://owner/name`: the name of a secret, never its value."""
    policy: BindingPolicy = BindingPolicy()


def tenant_of(binding: Binding, project_id: str | None) -> Scope:
    """The tenant that a binding serves: its own project, or the one that an organisation's binding is used
    for."""
    scope = binding.scope
    return scope if scope.project_id is not None else Scope(scope.org_id, project_id)
