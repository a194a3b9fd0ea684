"""Which files every user of this machine may read: what a stranger's own word may name.

A manifest, a first line or a symlink names whatever its author likes. By that word alone a file is given only
if it is public: everybody may read it, and only root can have put it there. Everything else needs the
operator's word.
"""

from __future__ import annotations

import os
import stat

from plughost.base.regular_file import others_may_read

__all__ = ["is_file", "is_public", "is_public_folder", "others_may_read"]

SYSTEM = "/usr/"
"""Below it a public folder holds public files: what is not public there is not this user's either."""


def is_public(real: str) -> bool:
    """A regular file or a folder that everybody may read and only root may change, by a real path."""
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
    return _only_roots(info) and info.st_mode & readable == readable and _public_way(os.path.dirname(real))


def is_public_folder(real: str) -> bool:
    """A folder of the system's own that everybody may read, by a real path. Elsewhere a public folder says
    nothing of what lies in it: `/home` is public."""
    return real.startswith(SYSTEM) and os.path.isdir(real) and is_public(real)


def is_file(real: str) -> bool:
    """A regular file, by a real path."""
    try:
        return stat.S_ISREG(os.lstat(real).st_mode)
    except OSError:
        return False


def _public_way(folder: str) -> bool:
    while True:
        try:
            info = os.lstat(folder)
        except OSError:
            return False
        if not stat.S_ISDIR(info.st_mode) or not _only_roots(info) or not info.st_mode & stat.S_IXOTH:
            return False
        if (above := os.path.dirname(folder)) == folder:
            return True
        folder = above


def _only_roots(info: os.stat_result) -> bool:
    others = stat.S_IWOTH if info.st_gid == 0 else stat.S_IWOTH | stat.S_IWGRP
    return info.st_uid == 0 and not info.st_mode & others
