"""Capability: the right to make certain requests to the host, a name with an optional scope."""

from __future__ import annotations

import msgspec


class Capability(msgspec.Struct, frozen=True):
    """A capability. `scope` lists what it is limited to (hosts, paths …); None is unlimited."""

    name: str
    scope: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.name if self.scope is None else f"{self.name}[{', '.join(self.scope)}]"
