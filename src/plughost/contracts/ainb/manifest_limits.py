"""The limits of an ainb manifest's declarations: public hosts, and programs that everybody may read.

Private addresses and private files need the operator's explicit grant: `network=HOST` or
`spawn_subprocess=PROGRAM` among the grants, or `allow`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import NamedTuple

from plughost._util.real_path import real_path
from plughost._util.text import escape_controls
from plughost.permissions.addresses import canonical_host, is_private_host
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.permissions.public_files import is_file, is_public
from plughost.spec import PluginSpec

NETWORK, SPAWN = "network", "spawn_subprocess"


def without_private(
    held: Iterable[Capability], operator: OperatorAccess, spec: PluginSpec
) -> tuple[frozenset[Capability], tuple[str, ...]]:
    """Removes what only the operator can grant. Returns the remaining capabilities, and a lint for each
    removed item."""
    capabilities: set[Capability] = set()
    lints: dict[str, None] = {}
    named = _operator_items(spec)
    for each in held:
        if each.scope is None or each.name not in (NETWORK, SPAWN):
            capabilities.add(each)
            continue
        remaining = []
        for item in each.scope:
            why = _denial_reason(each.name, item, operator, named, spec)
            if why is None:
                remaining.append(item)
            else:
                lints[_lint(each.name, item, why, spec)] = None
        if remaining:
            capabilities.add(Capability(each.name, tuple(remaining)))
    return frozenset(capabilities), tuple(sorted(lints))


class Programs(NamedTuple):
    """The existing programs listed in spawn_subprocess; a sandbox shows the plugin no others."""

    paths: tuple[str, ...]
    resolved: dict[str, str]
    """The real paths, at the time they were found to be public, of programs that only the manifest names."""


def programs(held: Iterable[Capability], spec: PluginSpec) -> Programs:
    """Resolves the programs of spawn_subprocess to absolute paths."""
    named = _operator_items(spec)
    paths: dict[str, None] = {}
    resolved: dict[str, str] = {}
    for item in (item for each in held if each.name == SPAWN for item in each.scope or ()):
        path = _find_program(item)
        if path is None:
            continue
        if (SPAWN, item) not in named and path not in spec.allow.execute:
            real = real_path(path)
            if not _is_public(real):
                continue  # it was public when the capability was granted
            resolved[path] = real
        paths[path] = None
    return Programs(tuple(paths), resolved)


def _denial_reason(
    name: str, item: str, operator: OperatorAccess, named: frozenset[tuple[str, str]], spec: PluginSpec
) -> str | None:
    """The reason why the manifest alone cannot grant `item`; None when it can."""
    if (name, item) in named:
        return None
    if name == NETWORK:
        try:
            host = canonical_host(item)
        except ValueError:
            return None  # not a host name, so it grants nothing
        private = is_private_host(host) and not operator.reaches(host, 0)
        return "it is a private address" if private else None
    path = _find_program(item)
    if path is None or path in spec.allow.execute:
        return None
    real = real_path(path)
    if _is_public(real):
        return None
    return f"{escape_controls(real)} is not a file that everybody can read and only root can change"


def _is_public(real: str) -> bool:
    return is_file(real) and is_public(real)


def _find_program(item: str) -> str | None:
    """The absolute path of a program, found on PATH; None when it does not exist."""
    found = shutil.which(item)
    return None if found is None else os.path.abspath(found)


def _operator_items(spec: PluginSpec) -> frozenset[tuple[str, str]]:
    """The (capability, item) pairs that the operator grants explicitly."""
    pairs = (grant.partition("=") for grant in spec.grants)
    return frozenset((name, item) for name, _, item in pairs if item)


def _lint(name: str, item: str, why: str, spec: PluginSpec) -> str:
    grants = ", ".join(f'"{escape_controls(grant)}"' for grant in (*spec.grants, f"{name}={item}"))
    return (
        f"{name} {escape_controls(item)!r} cannot be granted by its manifest: {why}. To allow it, set "
        f"grants = [{grants}] in your own plughost.toml"
    )
