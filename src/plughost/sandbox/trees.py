"""A process and all its descendants, and the memory they use together."""

from __future__ import annotations

import os

MOST = 4096
"""Processes looked at: a tree that is larger has other limits to meet."""
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:")


def memory_of(root: int) -> int:
    """Bytes that the tree below `root` holds, `root` included.

    What two processes share is counted for each: the sum may be too high, and never too low.
    """
    return sum(map(_private, tree(root)))


def tree(root: int) -> list[int]:
    found = [root]
    for pid in found:  # it grows while it is walked
        if len(found) >= MOST:
            break
        found += _children(pid)
    return found[:MOST]


def _children(pid: int) -> list[int]:
    """Of each of its threads: any of them may have forked."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def _private(pid: int) -> int:
    total = 0
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(_COUNTED):
            total += int(line.split()[1]) << 10
    return total


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""  # it has just ended
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(fd)
