"""Protected paths: what a sandbox is built from, and the check that no plugin can change it.

Whoever may write to a directory may replace anything below it by a symlink. A sandbox that is built again
from a path below would then be given whatever the symlink leads to.
"""

from __future__ import annotations

import msgspec

from plughost.sandbox.resolve.trusted_files import is_beneath


class ProtectedPaths(msgspec.Struct, frozen=True):
    """The paths that one plugin's sandbox is built from. All are real paths."""

    writes: tuple[str, ...] = ()
    """Files and directories that the plugin may write."""
    reads: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    """The plugin's own directories, its programs and their libraries, and every symlink that was followed."""
    folders: tuple[tuple[str, str], ...] = ()
    """The directory of the manifest, with its identity, when the command comes from a manifest and not from
    the operator."""

    def writable_by(self, other: ProtectedPaths) -> tuple[str, str] | None:
        """Returns a path of this plugin that the other one could replace, and the directory by which it
        could; or None.

        Two plugins may be granted the very same directory: neither can replace that one.
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
        """Whether both have been granted the same files and directories."""
        return {*self.reads} == {*other.reads} and {*self.writes} == {*other.writes}
