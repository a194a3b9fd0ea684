"""What a plugin may do, as a value: a name, and what the name is limited to."""

from __future__ import annotations

import msgspec


class Capability(msgspec.Struct, frozen=True):
    """`scope` lists what it is limited to (hosts, paths …); None is the whole of it."""

    name: str
    scope: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.name if self.scope is None else f"{self.name}[{', '.join(self.scope)}]"
