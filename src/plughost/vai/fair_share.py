"""FairShare: slots that tenants share fairly, and within a tenant its bindings.

It counts and compares; those who wait are kept elsewhere (`FairLimit`, `Deliveries`).
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")

MAX_REMEMBERED = 1024
"""Tenants, and keys, of which a count is kept; of more, those without a slot are forgotten."""


class _Count:
    """How many slots a tenant or a key has, and the number of its last turn."""

    __slots__ = ("slots", "turn")

    def __init__(self) -> None:
        self.slots = 0
        self.turn = 0


class FairShare(Generic[K]):
    """Counts who has slots. One tenant may have all `slots`, if nobody else wants one. `reserved` further
    ones are only for tenants that have none, so that nobody waits for a busy neighbour."""

    def __init__(self, slots: int, reserved: int) -> None:
        self._slots = slots
        self._reserved = reserved
        self._total = 0
        self._turn = 0
        self._tenants: dict[str, _Count] = {}
        self._keys: dict[K, _Count] = {}

    def load(self, tenant: str, key: K) -> tuple[int, int, int, int]:
        """Sorts those who want a slot: first the tenant with the fewest slots, and of several the one whose
        last turn is longest ago; then the keys of that tenant by the same rule."""
        of_tenant, of_key = self._tenants.get(tenant, _NONE), self._keys.get(key, _NONE)
        return of_tenant.slots, of_tenant.turn, of_key.slots, of_key.turn

    def enter(self, tenant: str, key: K) -> bool:
        """Takes a slot; False when there is none for that tenant."""
        of_tenant = self._tenants.get(tenant) or _add(self._tenants, tenant)
        if self._total >= (self._slots if of_tenant.slots else self._slots + self._reserved):
            return False
        of_key = self._keys.get(key) or _add(self._keys, key)
        self._total += 1
        self._turn += 1
        of_tenant.slots += 1
        of_key.slots += 1
        of_tenant.turn = of_key.turn = self._turn
        return True

    def leave(self, tenant: str, key: K) -> None:
        """Frees a slot."""
        self._total -= 1
        self._tenants[tenant].slots -= 1
        self._keys[key].slots -= 1


_NONE = _Count()


def _add(counts: dict[K, _Count], name: K) -> _Count:
    if len(counts) >= MAX_REMEMBERED:
        for each in [each for each, count in counts.items() if not count.slots]:
            del counts[each]
    counts[name] = added = _Count()
    return added
