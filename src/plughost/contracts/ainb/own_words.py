"""How far an ainb manifest's own word goes: to public hosts, and to programs that everybody may read.

For private addresses and private files the operator has to say so himself: `network=HOST` or
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
    held: Iterable[Capability], word: OperatorAccess, spec: PluginSpec
) -> tuple[frozenset[Capability], tuple[str, ...]]:
    """The capabilities less what only the operator can give, and what he is told of it."""
    left: set[Capability] = set()
    lints: dict[str, None] = {}
    named = _named(spec)
    for each in held:
        if each.scope is None or each.name not in (NETWORK, SPAWN):
            left.add(each)
            continue
        kept = []
        for item in each.scope:
            why = _why_not(each.name, item, word, named, spec)
            if why is None:
                kept.append(item)
            else:
                lints[_lint(each.name, item, why, spec)] = None
        if kept:
            left.add(Capability(each.name, tuple(kept)))
    return frozenset(left), tuple(sorted(lints))


class Programs(NamedTuple):
    """Those that its list of spawn_subprocess names and that are there; a sandbox shows it no others."""

    paths: tuple[str, ...]
    resolved: dict[str, str]
    """Where those led that only the manifest names, when they were found to be public."""


def programs(held: Iterable[Capability], spec: PluginSpec) -> Programs:
    named = _named(spec)
    paths: dict[str, None] = {}
    resolved: dict[str, str] = {}
    for item in (item for each in held if each.name == SPAWN for item in each.scope or ()):
        path = _program(item)
        if path is None:
            continue
        if (SPAWN, item) not in named and path not in spec.allow.execute:
            real = real_path(path)
            if not _is_public(real):
                continue  # it was when the capability was given
            resolved[path] = real
        paths[path] = None
    return Programs(tuple(paths), resolved)


def _why_not(
    name: str, item: str, word: OperatorAccess, named: frozenset[tuple[str, str]], spec: PluginSpec
) -> str | None:
    if (name, item) in named:
        return None
    if name == NETWORK:
        try:
            host = canonical_host(item)
        except ValueError:
            return None  # it names no host, and so opens none
        private = is_private_host(host) and not word.reaches(host, 0)
        return "it is a private address" if private else None
    path = _program(item)
    if path is None or path in spec.allow.execute:
        return None
    real = real_path(path)
    if _is_public(real):
        return None
    return f"{escape_controls(real)} is not a file that everybody may read and only root may change"


def _is_public(real: str) -> bool:
    return is_file(real) and is_public(real)


def _program(item: str) -> str | None:
    found = shutil.which(item)
    return None if found is None else os.path.abspath(found)


def _named(spec: PluginSpec) -> frozenset[tuple[str, str]]:
    pairs = (word.partition("=") for word in spec.grants)
    return frozenset((name, item) for name, _, item in pairs if item)


def _lint(name: str, item: str, why: str, spec: PluginSpec) -> str:
    words = ", ".join(f'"{escape_controls(word)}"' for word in (*spec.grants, f"{name}={item}"))
    return (
        f"{name} {escape_controls(item)!r} is not granted by its manifest's word: {why}. To allow it, set "
        f"grants = [{words}] in your own plughost.toml"
    )
