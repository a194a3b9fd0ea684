"""Opens what lies beneath a folder and nothing else, whatever is renamed or swapped meanwhile.

No path is resolved first and compared afterwards: between the two it may come to lead elsewhere. Either
the kernel keeps every step of its walk beneath the folder (openat2), or, where it cannot, each step is
taken by hand from a directory that is held open. Both give the same answers.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import struct
import sys
from collections.abc import Callable, Set

O_PATH: int = getattr(os, "O_PATH", 0)
"""Looks at a file without opening it; where there is no such flag, looking is opening."""

RACES = 100
"""How often the kernel may see a rename pass its `..` before we give up."""
LINKS = 40
"""How many symlinks a path may take: the kernel's number."""
DEPTH = 256
"""How many folders a walk by hand holds open; the kernel holds none and goes deeper."""

_LONGEST = 4096
_OPENAT2 = 437  # on every machine but a few that nobody has; they answer ENOSYS
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08


class EscapesFolder(Exception):
    """The path leads out of the folder, or it could not be made sure that it does not."""


def open_beneath(
    folder: int, path: str, flags: int = os.O_RDONLY, *, closed: Set[tuple[int, int]] = frozenset()
) -> int:
    """A descriptor of what `path` names below the directory descriptor `folder`, for reading only.

    Symlinks are followed as long as they are relative and stay below; `flags` may hold O_PATH and
    O_DIRECTORY. `closed` names folders below, as (device, inode), that count as outside.
    """
    if flags & ~(O_PATH | os.O_DIRECTORY):
        raise ValueError("beneath a folder, files are opened for reading only")
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")  # a C string would end there and name something else
    flags |= _always(flags)
    if closed:
        return _by_hand(folder, name, flags, closed)  # the kernel cannot leave a part out
    try:
        return _by_kernel(folder, name, flags)
    except OSError as error:
        # Too old a kernel, another system, or a container that knows no such call and forbids it.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return _by_hand(folder, name, flags)


def identity(fd: int) -> tuple[int, int]:
    """What a file is, whatever its name."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def _always(flags: int) -> int:
    """Opening must neither wait for a FIFO's writer nor take a terminal, nor reach our children."""
    if flags & O_PATH:
        return os.O_CLOEXEC  # nothing is opened, and openat2 refuses the others beside O_PATH
    return os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def _by_kernel(folder: int, path: bytes, flags: int) -> int:
    for _ in range(RACES):
        try:
            return _openat2(folder, path, flags)
        except (BlockingIOError, InterruptedError):
            continue
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise EscapesFolder(_leaves(path)) from None
            if error.errno == errno.ELOOP:
                # Too many symlinks or a magic link: the kernel has one word for both, the walk has two.
                os.close(_by_hand(folder, path, flags))
            raise
    raise EscapesFolder(f"{os.fsdecode(path)!r} was renamed under way again and again")


def _openat2(folder: int, path: bytes, flags: int) -> int:
    import ctypes

    how = struct.pack("=3Q", flags, 0, _BENEATH | _NO_MAGICLINKS)
    fd = _syscall()(_OPENAT2, folder, path, how, len(how))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return fd


@functools.cache
def _syscall() -> Callable[[int, int, bytes, bytes, int], int]:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    return function


def _by_hand(folder: int, path: bytes, flags: int, closed: Set[tuple[int, int]] = frozenset()) -> int:
    held: list[int] = []
    try:
        fd = _walk(folder, path, flags, held)
        if closed and not closed.isdisjoint(map(identity, (*held, fd))):
            os.close(fd)
            raise EscapesFolder(f"{os.fsdecode(path)!r} leads into a closed folder")
        return fd
    finally:
        for directory in held:
            os.close(directory)


def _walk(folder: int, path: bytes, flags: int, held: list[int]) -> int:
    """Step by step; `held` keeps the folders between `folder` and where we are.

    `..` goes back to the folder that we came from and still hold. Where that folder, or the one we are
    in, has been moved to meanwhile makes no difference.
    """
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if len(path) >= _LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    todo = _steps(path)
    links = 0
    while todo:
        step = todo.pop()
        here = held[-1] if held else folder
        if step in (b"", b".", b".."):
            os.close(_look_around(here))
            if step == b"..":
                if not held:
                    raise EscapesFolder(_leaves(path))
                os.close(held.pop())
            continue
        found = _look(step, here)
        if isinstance(found, bytes):
            links += 1
            if links > LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = _steps(found)
            if todo and target[:1] == [b""]:
                del target[0]  # more steps follow: it must be a folder anyhow
            todo += target
        elif todo and todo != [b""]:
            held.append(found)
            if len(held) > DEPTH:
                raise OSError(errno.ENAMETOOLONG, f"more than {DEPTH} folders deep")
        else:
            return _arrive(step, here, found, flags | (os.O_DIRECTORY if todo else 0))
    return os.open(b".", flags, dir_fd=held[-1] if held else folder)


def _steps(path: bytes) -> list[bytes]:
    """The names in a path, the last one first; an empty one for a slash at the end."""
    if path.startswith(b"/"):
        raise EscapesFolder(_leaves(path))
    names = [name for name in path.split(b"/") if name]
    if path.endswith(b"/"):
        names.append(b"")
    return names[::-1]


def _look(name: bytes, here: int) -> int | bytes:
    """A descriptor of what has this name, or where it points to if it is a symlink."""
    try:
        fd = os.open(name, O_PATH | os.O_NOFOLLOW | _always(O_PATH), dir_fd=here)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
        return os.readlink(name, dir_fd=here)  # without O_PATH a symlink cannot be held
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        return fd
    try:
        return os.readlink(b"", dir_fd=fd)
    finally:
        os.close(fd)


def _look_around(here: int) -> int:
    """Fails where the kernel would not let us take a step: no folder, or no right to search it."""
    return os.open(b".", O_PATH | os.O_DIRECTORY | _always(O_PATH), dir_fd=here)


def _arrive(name: bytes, here: int, found: int, flags: int) -> int:
    """The last step: what was found, opened as it was asked for."""
    if flags & O_PATH:
        if flags & os.O_DIRECTORY and not stat.S_ISDIR(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return found
    os.close(found)
    # By its name once more. Another file may have it by now, of this folder too; a symlink is refused.
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)


def _leaves(path: bytes) -> str:
    return f"{os.fsdecode(path)!r} leads out of the folder"
