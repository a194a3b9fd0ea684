"""Public files: those that every user of this machine may read and only root may change.

The author of a plugin can name any file, in a manifest, a shebang line or a symlink. Without a grant by the
operator, a plugin gets such a file only if it is public.
"""

from __future__ import annotations

import os
import stat

from plughost._util.untrusted_file import others_may_read

__all__ = ["is_file", "is_public", "is_public_folder", "others_may_read"]

SYSTEM = "/usr/"
"""The system's folder. A public folder below it may be shown whole: private files in it are not this
user's."""


def is_public(real: str) -> bool:
    """Whether a path without symlinks is a regular file or folder that everybody may read and only root may
    change."""
    try:
        info = os.lstat(real)
    except OSError:
        return False
    if stat.S_ISREG(info.st_mode):
        readable = stat.S_IROTH
    elif stat.S_ISDIR(info.st_mode):
        readable = stat.S_IROTH | stat.S_IXOTH
    else:
        return False
    return (
        _only_root_writes(info)
        and info.st_mode & readable == readable
        and _has_public_parents(os.path.dirname(real))
    )


def is_public_folder(real: str) -> bool:
    """Whether a path without symlinks is a public folder of the system. Elsewhere a public folder may hold
    private files: `/home` is public."""
    return real.startswith(SYSTEM) and os.path.isdir(real) and is_public(real)


def is_file(real: str) -> bool:
    """Whether a path without symlinks is a regular file."""
    try:
        return stat.S_ISREG(os.lstat(real).st_mode)
    except OSError:
        return False


def _has_public_parents(folder: str) -> bool:
    while True:
        try:
            info = os.lstat(folder)
        except OSError:
            return False
        if not stat.S_ISDIR(info.st_mode) or not _only_root_writes(info) or not info.st_mode & stat.S_IXOTH:
            return False
        if (above := os.path.dirname(folder)) == folder:
            return True
        folder = above


def _only_root_writes(info: os.stat_result) -> bool:
    others = stat.S_IWOTH if info.st_gid == 0 else stat.S_IWOTH | stat.S_IWGRP
    return info.st_uid == 0 and not info.st_mode & others
