"""Reads a regular file whose name may be a stranger's: nothing else is ever opened.

To open a device may already do something: a terminal becomes the one that controls a host which has none, and
whoever holds its other end can then end the host; a watchdog begins to count. So a file is looked at first
(O_PATH opens nothing), and what was looked at is what is opened, whatever has its name by then.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable

O_PATH: int = getattr(os, "O_PATH", 0)
"""Looks at a file without opening it; where there is no such flag, looking is opening."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: str | os.PathLike[str], check: Callable[[int], None] = lambda fd: None) -> io.FileIO:
    """Open a regular file for reading, unbuffered; raises OSError when it is something else.

    `check` is called with a descriptor of it before it is opened, and raises OSError to refuse it.
    """
    looked = os.open(path, O_PATH | os.O_CLOEXEC if O_PATH else _READ)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise OSError(f"{os.path.basename(path)!r} is not a regular file")
        check(looked)
        fd = os.open(f"/proc/self/fd/{looked}", _READ) if O_PATH else os.dup(looked)
    finally:
        os.close(looked)
    return io.FileIO(fd)


def read_regular(
    path: str | os.PathLike[str], largest: int, check: Callable[[int], None] = lambda fd: None
) -> bytes:
    """Read a whole regular file; raises OSError when it is something else, or larger than `largest` bytes."""
    with io.BufferedReader(open_regular(path, check)) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest} bytes")
    return data


def read_authors(path: str | os.PathLike[str], largest: int) -> bytes:
    """The same for a file that came with a plugin, in a folder given by its real path.

    A link may lead out of the folder only to what every user of the machine can read: what is in the file is
    given to the plugin, its variables for one.
    """
    folder = os.path.dirname(os.path.abspath(path))

    def check(fd: int) -> None:
        real = os.readlink(f"/proc/self/fd/{fd}") if O_PATH else os.path.realpath(path)
        if not real.startswith(f"{folder.rstrip('/')}/") and not others_may_read(fd):
            raise OSError(errno.EACCES, LEADS_OUT.format(real))

    return read_regular(path, largest, check)


LEADS_OUT = (
    "it is a link to {}, a file outside of its folder that other users cannot read. Put the file itself "
    "here; for a plughost.toml of your own, you can instead pass its real path with -c"
)


def others_may_read(fd: int) -> bool:
    """Whether another user could read this open file or folder by its path, whoever owns it."""
    info = os.fstat(fd)
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(info.st_mode) else 0)
    if info.st_mode & wanted != wanted:
        return False
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")
        while (above := os.path.dirname(real)) != real:
            if not os.lstat(above).st_mode & stat.S_IXOTH:
                return False
            real = above
    except OSError:
        return False  # without /proc, or when it was removed meanwhile: nobody knows
    return True
