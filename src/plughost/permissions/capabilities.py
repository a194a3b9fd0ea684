"""Capability intersection: declared ∩ granted = effective capabilities. Pure functions of values."""

from __future__ import annotations

from collections.abc import Iterable

from plughost.permissions.capability import Capability


def effective(declared: Iterable[Capability], granted: Iterable[Capability]) -> frozenset[Capability]:
    """The effective capabilities: declared by the plugin and granted by the operator. A scope is what both
    name."""
    return frozenset(
        both for wanted in declared for given in granted if (both := _overlap(wanted, given)) is not None
    )


def ungranted(declared: Iterable[Capability], granted: Iterable[Capability]) -> list[Capability]:
    """The declared capabilities that no grant covers completely, in the declared order."""
    allowed = list(granted)
    return [wanted for wanted in declared if not any(_overlap(wanted, given) == wanted for given in allowed)]


def allows(capabilities: Iterable[Capability], name: str) -> bool:
    """Whether the capability `name` is among these, in any scope."""
    return any(capability.name == name for capability in capabilities)


def _overlap(wanted: Capability, given: Capability) -> Capability | None:
    if wanted.name != given.name:
        return None
    if given.scope is None or wanted.scope == given.scope:
        return wanted
    if wanted.scope is None:
        return given
    shared = tuple(item for item in wanted.scope if item in given.scope)
    return Capability(wanted.name, shared) if shared else None
