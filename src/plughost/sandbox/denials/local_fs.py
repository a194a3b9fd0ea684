"""Looks at files that a plugin has named on local file systems only, so that nothing leaves this machine.

A name that is looked up on a network file system, or that makes an automounter contact a server, leaves the
machine. A plugin could send data in such names, so nothing is looked up there.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable

from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.trusted_files import Walk, is_beneath, walk

MOUNTS = "/proc/self/mountinfo"
_NETWORK_FS = re.compile(r"autofs|nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|fuse.*")
_OCTAL = re.compile(r"\\([0-7]{3})")

Look = Callable[[str], os.stat_result]


def look() -> Look:
    """Returns an `lstat` for real paths, by the mount table as it is now. It raises OSError on a network file
    system, or when the mount is unknown."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = parse(file.read())
    except OSError:
        mounts = {}

    def lstat(path: str) -> os.stat_result:
        if is_network_mount(path, mounts):
            raise OSError(errno.EREMOTE, os.strerror(errno.EREMOTE), path)
        return os.lstat(path)

    return lstat


def walk_local(path: str, lstat: Look) -> Walk | None:
    """Resolve a path; None when that is impossible without a network file system."""
    try:
        return walk(path, lstat)
    except (OSError, SandboxUnavailable):
        return None


def parse(text: str) -> dict[str, str]:
    """Parse mountinfo: the file system type by mount point. Of two mounts on one point the later one is on
    top."""
    lines = (line.partition(" - ") for line in text.splitlines())
    return {_plain(left.split(" ")[4]): right.split(" ")[0] for left, dash, right in lines if dash}


def is_network_mount(path: str, mounts: dict[str, str]) -> bool:
    """Whether the path is on a network file system or an automount point, or on an unknown mount."""
    deepest = max((place for place in mounts if is_beneath(path, place)), key=len, default=None)
    return deepest is None or _NETWORK_FS.fullmatch(mounts[deepest]) is not None


def _plain(place: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), place)
