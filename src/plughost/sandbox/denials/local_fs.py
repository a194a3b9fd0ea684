"""Looking at files that a plugin has named, without anybody outside this machine noticing.

A name that is looked up on a network file system, or makes an automounter look for a server, leaves the
machine. What a plugin may not send must not leave it in a name either: there nothing is looked at.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable

from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.trusted_files import Walk, is_beneath, walk

MOUNTS = "/proc/self/mountinfo"
_LOUD = re.compile(r"autofs|nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|fuse.*")
_OCTAL = re.compile(r"\\([0-7]{3})")

Look = Callable[[str], os.stat_result]


def look() -> Look:
    """`lstat` by real paths, as the mounts are now; OSError where it would be heard, or nobody knows."""
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
    """Where a path leads; None when that cannot be told."""
    try:
        return walk(path, lstat)
    except (OSError, SandboxUnavailable):
        return None


def parse(text: str) -> dict[str, str]:
    """The type of what is mounted, by its place; of two in one place the later one is on top."""
    lines = (line.partition(" - ") for line in text.splitlines())
    return {_plain(left.split(" ")[4]): right.split(" ")[0] for left, dash, right in lines if dash}


def is_network_mount(path: str, mounts: dict[str, str]) -> bool:
    deepest = max((place for place in mounts if is_beneath(path, place)), key=len, default=None)
    return deepest is None or _LOUD.fullmatch(mounts[deepest]) is not None


def _plain(place: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), place)
