"""The part of the machine that is open to a confined plugin, as a value to classify its denials by."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from plughost.permissions.access import Endpoint
from plughost.sandbox.resolve.trusted_files import is_beneath


class VisibleAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Real paths that are open to the plugin, without those that the host has created in place of the
    machine's own."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    """Directories that can be listed."""
    programs: tuple[str, ...] = ()
    """The plugin's own directories, and programs from elsewhere that it runs."""
    built: tuple[str, ...] = ()
    """Paths that its sandbox is built from: nobody may be granted to write them."""
    private: tuple[str, ...] = ()
    """Directories that belong to hosts alone."""
    connect: tuple[Endpoint, ...] | None = None
    """Endpoints that its proxy connects to; None where there are no sockets, and so nothing to grant."""

    def covers(self, kind: str, real: str) -> bool:
        """Whether the plugin may already read, write or execute this real path."""
        enough = {"read": (*self.read, *self.write, *self.execute), "write": self.write}.get(
            kind, self.execute
        )
        return within(real, enough) or (kind == "read" and real in self.list)


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether a real path is one of the directories, or in one."""
    return any(is_beneath(path, folder) for folder in folders)
