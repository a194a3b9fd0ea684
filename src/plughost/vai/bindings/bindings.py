"""Which exports are bound where: the seam to whoever keeps bindings, and the least of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from plughost.vai.bindings.binding import Binding, Scope


class Bindings(Protocol):
    """The bindings that are in use."""

    def by_id(self, binding_id: str) -> Binding | None:
        """None when it is gone, or out of use."""

    def of(self, scope: Scope) -> Sequence[Binding]:
        """Those that serve a project: its own, and its organisation's for exports that it has not bound."""

    def serves(self, scope: Scope) -> bool:
        """Whether they are all that this tenant has. What is another host's tenant's is left to that one.

        Asked in any thread.
        """


class FixedBindings:
    """These and no others."""

    def __init__(self, bindings: Iterable[Binding] = ()) -> None:
        self._known = {binding.binding_id: binding for binding in bindings}

    def by_id(self, binding_id: str) -> Binding | None:
        return self._known.get(binding_id)

    def of(self, scope: Scope) -> Sequence[Binding]:
        found: dict[tuple[str, str], Binding] = {}
        for level in (Scope(scope.org_id), scope):
            for binding in self._known.values():
                if binding.scope == level:
                    found[binding.package_id, binding.export_id] = binding
        return [*found.values()]

    def serves(self, scope: Scope) -> bool:
        return bool(self.of(scope))
