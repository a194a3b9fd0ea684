"""Process trees: a process with all its descendants, and the memory and processor time that they use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

MOST = 4096
"""Processes that are looked at: a larger tree hits other limits."""
_COUNTED = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap|VmPTE|HugetlbPages):\s+([0-9]+) kB$", re.M)
"""Lines end with LF only: a process may have a CR in its name."""


def memory_of(roots: Iterable[int]) -> Iterator[int]:
    """Bytes of memory of each process in the trees below `roots`, one at a time, so that a measurement can be
    spread out.

    Memory that two processes share is counted for each, so the sum may be too high. Memory that no process
    has mapped is not counted: plugins that are measured like this can have none
    (`launcher/seccomp/policy.toml`).
    """
    for pid in tree(roots):
        status = _read(f"/proc/{pid}/status")
        yield sum(int(kilobytes) << 10 for kilobytes in _COUNTED.findall(status))


def cpu_seconds(roots: Iterable[int]) -> float:
    """Seconds of processor time that the processes of the trees below `roots` have used, with those of
    children that have ended."""
    ticks = 0
    for pid in tree(roots):
        # The name may contain anything, also spaces and parentheses: the numbers follow the last one.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def tree(roots: Iterable[int]) -> Iterator[int]:
    """The pids of the trees below `roots`, parents first."""
    found = [*roots]
    for pid in found:  # the list grows during the loop
        yield pid
        if len(found) < MOST:
            found += _children(pid)


def _children(pid: int) -> list[int]:
    """The children of all its threads: any of them may have forked."""
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
        return b""  # the process has just ended
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(fd)
