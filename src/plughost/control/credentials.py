"""Who may use a control socket: the same user and root, but no confined process of theirs.

A plugin in a sandbox may have the user id of its host, and see the socket below a folder that it may read.
Its sandbox shows: it has more seccomp filters than the host, and no process can get rid of a filter.
"""

from __future__ import annotations

import os
import re
import socket
import struct

_FILTERS = re.compile(rb"^(?:Seccomp|Seccomp_filters):\s+([0-9]+)$", re.M)


def may_control(connection: socket.socket) -> bool:
    """Whether the process at the other end may control this host, by what the kernel says of it
    (SO_PEERCRED)."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user in (os.geteuid(), 0) and not _is_confined(pid)


def _is_confined(pid: int) -> bool:
    """Whether a process has more seccomp filters than this one. True for a process that has ended, or is not
    visible from here."""
    theirs, ours = _seccomp(pid), _seccomp(os.getpid())
    return not theirs or theirs > ours


def _seccomp(pid: int) -> list[int]:
    """The seccomp mode of a process and, since Linux 5.9, the number of its filters; empty if unknown."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            return [int(number) for number in _FILTERS.findall(status.read())]
    except OSError:
        return []
