"""What sandboxes are built from, and that nobody inside one can change it.

Whoever may write to a folder may put a symlink in the place of anything below it. A sandbox that is made
anew from a path below it would be given whatever that leads to.
"""

from __future__ import annotations

import msgspec

from plughost.sandbox.resolve.trusted_files import is_beneath


class ProtectedPaths(msgspec.Struct, frozen=True):
    """Of one plugin, all as real paths."""

    writes: tuple[str, ...] = ()
    """Files and folders that it may write."""
    reads: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    """Its own folders, its programs and their libraries, and every symlink that was followed."""
    folders: tuple[tuple[str, str], ...] = ()
    """The folder that says what it is, with its identity, where that is not the operator's word."""

    def writable_by(self, other: ProtectedPaths) -> tuple[str, str] | None:
        """A path that this is built from, and what the other may write that puts it in its hands.

        Two plugins may be granted the very same folder: neither can replace that one.
        """
        for folder in other.writes:
            for path in self.code:
                if is_beneath(path, folder):
                    return path, folder
            for path in (*self.reads, *self.writes):
                if path != folder and is_beneath(path, folder):
                    return path, folder
        return None

    def same_grants(self, other: ProtectedPaths) -> bool:
        """Whether the same files and folders are granted."""
        return {*self.reads} == {*other.reads} and {*self.writes} == {*other.writes}
