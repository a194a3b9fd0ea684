"""A process and all its descendants, and the memory they use together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

MOST = 4096
"""Processes looked at: a tree that is larger has other limits to meet."""
_COUNTED = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap|VmPTE|HugetlbPages):\s+([0-9]+) kB$", re.M)
"""Lines end with LF and nothing else: a process may have a CR in its name."""


def memory_of(roots: Iterable[int]) -> Iterator[int]:
    """Bytes that each process holds of the trees below `roots`, one at a time: a look may be spread out.

    What two processes share is counted for each: the sum may be too high. What no process has mapped is not
    counted: plugins that are summed like this can have no such memory (`launcher/seccomp/policy.toml`).
    """
    for pid in tree(roots):
        status = _read(f"/proc/{pid}/status")
        yield sum(int(kilobytes) << 10 for kilobytes in _COUNTED.findall(status))


def tree(roots: Iterable[int]) -> Iterator[int]:
    found = [*roots]
    for pid in found:  # it grows while it is walked
        yield pid
        if len(found) < MOST:
            found += _children(pid)


def _children(pid: int) -> list[int]:
    """Of each of its threads: any of them may have forked."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


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
