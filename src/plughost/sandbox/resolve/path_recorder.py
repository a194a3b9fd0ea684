"""Records the paths that were resolved: the symlinks on the way, and the state of every file at that time."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from plughost.errors import LaunchFailed
from plughost.sandbox.resolve.trusted_files import ExposurePolicy, Walk, walk, walk_again

Stamp = tuple[int, int, int]


class PathRecorder:
    """Resolves paths and records them. `links` are the symlinks that must exist inside, too; those in the
    plugin's own directories are visible anyway.

    `resolved` has the real paths of those that were checked before: they must still lead there.
    """

    def __init__(self, program: str, policy: ExposurePolicy, resolved: Mapping[str, str]) -> None:
        self.links: dict[str, str] = {}
        self.stamps: dict[str, Stamp | None] = {}
        self._program = program
        self._policy = policy
        self._resolved = resolved

    def __call__(self, path: str) -> Walk:
        try:
            resolved = self._resolved.get(path)
            walked = walk(path) if resolved is None else walk_again(path, resolved)
        except OSError as error:
            raise LaunchFailed(
                f"cannot execute {self._program!r}: {path}: {error.strerror}",
                hint="check the path of the command",
            ) from error
        for link, text in walked.links:
            if not self._policy.is_own(link):
                self.links[link] = text
            self.stamps[link] = stamp(link)
        self.stamps[walked.real] = stamp(walked.real)
        return walked


def stamp(path: str) -> Stamp | None:
    """The state of a file, which differs after it was changed; None when it does not exist."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    # A directory's mtime changes with every entry, whether or not that concerns the command.
    return info.st_ino, info.st_mode, 0 if stat.S_ISDIR(info.st_mode) else info.st_mtime_ns
