"""Who may use a control socket: the same user and root, but no confined process of theirs.

A plugin in a sandbox may have the user id of its host, and see the socket below a folder that it may read.
Its sandbox shows: it has more seccomp filters than the host, and no process can get rid of a filter.
"""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import struct

_SO_PEERPIDFD = 77
"""Linux 6.5; Python has no name for it yet."""
OWNERS = "a host can be controlled only by the user who runs it, and by root"
"""What to know for a user who is refused."""
_FILTERS = re.compile(rb"^(?:Seccomp|Seccomp_filters):\s+([0-9]+)$", re.M)


def may_control(connection: socket.socket) -> bool:
    """Whether the process at the other end may control this host, by what the kernel says of it
    (SO_PEERCRED)."""
    pid, user = _peer(connection)
    # Whether it is alive comes last: what was read about a process is true if it has not ended since.
    return user in (os.geteuid(), 0) and not _is_confined(pid) and _is_alive(connection)


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end."""
    return _peer(connection)[1]


def _peer(connection: socket.socket) -> tuple[int, int]:
    """The process id and the user id at the other end, of the moment when it connected or began to listen."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, user


# A plugin of class landlock has the user id of its host, no namespaces of its own, and Landlock does not
# restrict unix sockets that have a path. Its seccomp filter keeps it out, which `plughost-inner` installs in
# every class before the plugin's first instruction: without a network namespace it allows no `socket` call at
# all, and a connection that the plugin got in another way counts as confined here, because of that filter.


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


def _is_alive(connection: socket.socket) -> bool:
    """Whether the process that connected has not ended yet, so that its process id was its own until now.

    A confined process could otherwise connect, leave the connection to its child, and end: the next process
    with its id might be one that is not confined. Before Linux 6.5 the kernel gives no handle of the process
    that connected. What remains there: a confined process with the host's user id that can connect at all,
    and whose id is given to another process of that user before the host accepts the connection. On every
    kernel, a process that may control a host can hand its connection to another one.
    """
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, struct.calcsize("i"))
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT  # otherwise it has ended
    (handle,) = struct.unpack("i", data)
    try:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        return not ended.poll(0)
    finally:
        os.close(handle)
