"""The two pipes to the host, out of everybody else's reach.

Once they are claimed, descriptor 1 is stderr: a stray `print`, a child process or a C extension that
writes to stdout ends up in the log, never among the frames. Descriptor 0 is empty.
"""

from __future__ import annotations

import _thread
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

CHUNK = 65536
MOST_AHEAD = 64 << 20
"""Bytes that are kept while the host does not read; it may leave as many to a plugin that does not."""
GLANCE = 5
"""Milliseconds until we look again whether there is something to take: another thread takes it now, or has
to make room."""

_claimed: tuple[int, ...] = ()
"""The descriptors to read from and to write to."""


def claim() -> None:
    """Take stdin and stdout for the host alone. `run` does it; call it yourself before imports that print."""
    global _claimed
    if _claimed:
        return
    _claimed = os.dup(0), os.dup(1)  # which no child process inherits
    if _is_ours_alone(1):
        os.set_blocking(1, False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if hasattr(sys.stdout, "reconfigure"):
        # A log is read while it is written. What was printed before and not yet flushed goes there, too.
        sys.stdout.reconfigure(line_buffering=True)


def _is_ours_alone(number: int) -> bool:
    """Not a terminal or a file, and nothing that stdin or stderr is, too: those block as they did."""
    told = os.fstat(number)
    return (stat.S_ISFIFO(told.st_mode) or stat.S_ISSOCK(told.st_mode)) and not any(
        os.path.samestat(told, os.fstat(other)) for other in (0, 2)
    )


class Pipes:
    """Bytes in, bytes out. Whoever waits for the host to read takes meanwhile what the host has to say: one
    that wants to be read first would wait for ever, and so would we."""

    def __init__(self, incoming: int, outgoing: int, most: int = MOST_AHEAD) -> None:
        """If `outgoing` blocks, nothing is taken meanwhile."""
        self._in = incoming
        self._out = outgoing
        self._most = most
        self._ahead = bytearray()
        """What came while something was to be sent."""
        self._ended = False
        self._reading = _thread.allocate_lock()

    @classmethod
    def claim(cls) -> Self:
        """Those to the host, claimed now if they were not before."""
        claim()
        return cls(*_claimed)

    def receive(self, size: int) -> bytes:
        """Up to so many bytes; none at the end."""
        with self._reading:
            if not self._ahead:
                return os.read(self._in, size)
            taken = bytes(self._ahead[:size])
            del self._ahead[:size]
            return taken

    def receive_into(self, view: memoryview) -> int:
        """How many came; none at the end."""
        with self._reading:
            if not self._ahead:
                return os.readv(self._in, [view])
            size = min(len(view), len(self._ahead))
            view[:size] = self._ahead[:size]
            del self._ahead[:size]
            return size

    def send(self, data: memoryview) -> int:
        """How many the host's pipe took, as soon as it takes some."""
        while True:
            try:
                return os.write(self._out, data)
            except BlockingIOError:
                self._wait()

    def _wait(self) -> None:
        """Until it is worth while to try again; if something came, it was taken."""
        from select import POLLIN, POLLOUT

        room, news = (self._out, POLLOUT), (self._in, POLLIN)
        if self._ended or len(self._ahead) >= self._most:
            _ready(GLANCE, room)
        elif self._out in _ready(None, room, news):
            return
        elif self._reading.acquire(False):
            try:
                if _ready(0, news):  # and nobody else was quicker
                    data = os.read(self._in, CHUNK)
                    self._ahead += data
                    self._ended = not data
            finally:
                self._reading.release()
        else:
            _ready(GLANCE, room)  # another thread reads


def _ready(milliseconds: int | None, *watched: tuple[int, int]) -> list[int]:
    """Those of the descriptors of which that can be done, as soon as there is one."""
    from select import poll  # which few ever need

    waiting = poll()
    for descriptor, what in watched:
        waiting.register(descriptor, what)
    return [descriptor for descriptor, _ in waiting.poll(milliseconds)]
