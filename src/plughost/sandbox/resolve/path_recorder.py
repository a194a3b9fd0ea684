"""Paths as they were walked: which symlinks were on the way, and how everything looked then."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from plughost.errors import LaunchFailed
from plughost.sandbox.resolve.trusted_files import ExposurePolicy, Walk, walk, walk_again

Stamp = tuple[int, int, int]


class PathRecorder:
    """`links` are those that a plugin needs to go the same ways; those in its own folders are seen anyhow.

    `resolved` has the real path of each that was checked before: it must lead there still.
    """

    def __init__(self, program: str, trust: ExposurePolicy, resolved: Mapping[str, str]) -> None:
        self.links: dict[str, str] = {}
        self.stamps: dict[str, Stamp | None] = {}
        self._program = program
        self._trust = trust
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
            if not self._trust.is_own(link):
                self.links[link] = text
            self.stamps[link] = stamp(link)
        self.stamps[walked.real] = stamp(walked.real)
        return walked


def stamp(path: str) -> Stamp | None:
    """What changes when a file does; None for one that is not there."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    # A folder's own time changes with every file in it, and says nothing of what the command is.
    return info.st_ino, info.st_mode, 0 if stat.S_ISDIR(info.st_mode) else info.st_mtime_ns
