"""Bindings: the protocol to look up active bindings, and FixedBindings, which holds a given list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from plughost.vai.bindings.binding import Binding, Scope


class Bindings(Protocol):
    """Looks up the active bindings."""

    def by_id(self, binding_id: str) -> Binding | None:
        """The binding; None when it is removed or not active."""

    def of(self, scope: Scope, rollout_key: str = "") -> Sequence[Binding]:
        """The bindings that serve a project: its own, and its organisation's for exports that it has not
        bound. Where two versions share the traffic, the one that serves the rollout key."""

    def serves(self, scope: Scope) -> bool:
        """Whether this host is responsible for a tenant. Data of other tenants is left to their own hosts.

        May be called in any thread.
        """

    def ids(self) -> Collection[str] | None:
        """The ids of the bindings that this host delivers events to; None for all that there are."""

    def scopes(self) -> Collection[Scope] | None:
        """The tenants that this host serves; an organisation includes its projects. None for every tenant."""


class FixedBindings:
    """Bindings from a list that does not change."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._bindings = {binding.binding_id: binding for binding in bindings}

    def by_id(self, binding_id: str) -> Binding | None:
        return self._bindings.get(binding_id)

    def of(self, scope: Scope, rollout_key: str = "") -> Sequence[Binding]:
        found: dict[tuple[str, str], Binding] = {}
        for level in (Scope(scope.org_id), scope):
            for binding in self._bindings.values():
                if binding.scope == level:
                    found[binding.package_id, binding.export_id] = binding
        return [*found.values()]

    def serves(self, scope: Scope) -> bool:
        return bool(self.of(scope))

    def ids(self) -> Collection[str]:
        return self._bindings.keys()

    def scopes(self) -> Collection[Scope]:
        return {binding.scope for binding in self._bindings.values()}
