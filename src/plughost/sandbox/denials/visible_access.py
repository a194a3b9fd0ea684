"""What a confined plugin finds open of the machine, as a value to judge its denials by."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from plughost.permissions.access import Endpoint
from plughost.sandbox.resolve.trusted_files import is_beneath


class VisibleAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Real paths; nothing that was made for the plugin in a place where the machine has something else."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    """Folders that can be opened to list them."""
    programs: tuple[str, ...] = ()
    """Its own folders, and the programs that are run from elsewhere."""
    built: tuple[str, ...] = ()
    """What its sandbox is built from: nobody may write that."""
    private: tuple[str, ...] = ()
    """Where hosts keep what is theirs."""
    connect: tuple[Endpoint, ...] | None = None
    """Where its proxy leads; None where there are no sockets, and so nothing to grant."""

    def covers(self, kind: str, real: str) -> bool:
        """Whether it may already be read, written or executed."""
        enough = {"read": (*self.read, *self.write, *self.execute), "write": self.write}.get(
            kind, self.execute
        )
        return within(real, enough) or (kind == "read" and real in self.list)


def within(path: str, folders: Iterable[str]) -> bool:
    return any(is_beneath(path, folder) for folder in folders)
