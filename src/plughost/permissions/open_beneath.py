"""open_beneath: opens files beneath a folder and nothing else (RESOLVE_BENEATH), safe against path traversal
and against renames meanwhile.

No path is resolved first and compared afterwards: in between, it may come to lead elsewhere. Either the
kernel keeps every step of the walk beneath the folder (openat2) or, where it cannot, each step is taken from
a directory that is held open. Both give the same results.
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
"""The flag to get a descriptor of a file without opening it; 0 where there is none, and the file is
opened."""

MAX_RACES = 100
"""Attempts of openat2, which fails when a rename happens while it resolves `..`."""
MAX_SYMLINKS = 40
"""Symlinks that a path may go through: the kernel's limit."""
MAX_DEPTH = 256
"""Folders that a walk without openat2 holds open; the kernel holds none and goes deeper."""

_MAX_PATH = 4096
_OPENAT2 = 437  # on all architectures but a few rare ones, which answer ENOSYS
_NO_MAGICLINKS = 0x02
_BENEATH = 0x08


class EscapesFolder(Exception):
    """Raised when a path leads outside the folder, or when that could not be ruled out."""


def open_beneath(
    folder: int, path: str, flags: int = os.O_RDONLY, *, closed: Set[tuple[int, int]] = frozenset()
) -> int:
    """Open `path` below the directory descriptor `folder`, for reading only; a new descriptor.

    Symlinks are followed as long as they are relative and stay below; `flags` may hold O_PATH and
    O_DIRECTORY. `closed` are folders below, as (device, inode), that count as outside.
    Raises EscapesFolder, or OSError.
    """
    if flags & ~(O_PATH | os.O_DIRECTORY):
        raise ValueError("files in a folder are opened for reading only")
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")  # a C string would end there and name another file
    flags |= _common_flags(flags)
    if closed:
        return _open_stepwise(folder, name, flags, closed)  # openat2 cannot exclude folders
    try:
        return _open_with_openat2(folder, name, flags)
    except OSError as error:
        # An old kernel, another system, or a container whose seccomp filter forbids the unknown call.
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return _open_stepwise(folder, name, flags)


def identity(fd: int) -> tuple[int, int]:
    """The identity of an open file: device and inode."""
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def _common_flags(flags: int) -> int:
    """Flags that are always set: do not wait for a FIFO's writer, do not take a terminal, close on exec."""
    if flags & O_PATH:
        return os.O_CLOEXEC  # openat2 refuses the other flags beside O_PATH
    return os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def _open_with_openat2(folder: int, path: bytes, flags: int) -> int:
    for _ in range(MAX_RACES):
        try:
            return _openat2(folder, path, flags)
        except (BlockingIOError, InterruptedError):
            continue
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise EscapesFolder(_escape_message(path)) from None
            if error.errno == errno.ELOOP:
                # Too many symlinks, or a magic link: the errno is the same, the walk tells them apart.
                os.close(_open_stepwise(folder, path, flags))
            raise
    raise EscapesFolder(f"{os.fsdecode(path)!r} was renamed repeatedly while it was opened")


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


def _open_stepwise(folder: int, path: bytes, flags: int, closed: Set[tuple[int, int]] = frozenset()) -> int:
    held: list[int] = []
    try:
        fd = _walk(folder, path, flags, held)
        if closed and not closed.isdisjoint(map(identity, (*held, fd))):
            os.close(fd)
            raise EscapesFolder(f"{os.fsdecode(path)!r} is in a folder that is not accessible")
        return fd
    finally:
        for directory in held:
            os.close(directory)


def _walk(folder: int, path: bytes, flags: int, held: list[int]) -> int:
    """Walk a path step by step; `held` has descriptors of the folders between `folder` and the current one.

    `..` goes back to the previous descriptor in `held`. It makes no difference whether a folder was moved
    meanwhile.
    """
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if len(path) >= _MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    todo = _reversed_names(path)
    links = 0
    while todo:
        step = todo.pop()
        here = held[-1] if held else folder
        if step in (b"", b".", b".."):
            os.close(_open_here(here))
            if step == b"..":
                if not held:
                    raise EscapesFolder(_escape_message(path))
                os.close(held.pop())
            continue
        found = _open_or_readlink(step, here)
        if isinstance(found, bytes):
            links += 1
            if links > MAX_SYMLINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = _reversed_names(found)
            if todo and target[:1] == [b""]:
                del target[0]  # more names follow: it must be a folder anyway
            todo += target
        elif todo and todo != [b""]:
            held.append(found)
            if len(held) > MAX_DEPTH:
                raise OSError(errno.ENAMETOOLONG, f"more than {MAX_DEPTH} folders deep")
        else:
            return _open_last(step, here, found, flags | (os.O_DIRECTORY if todo else 0))
    return os.open(b".", flags, dir_fd=held[-1] if held else folder)


def _reversed_names(path: bytes) -> list[bytes]:
    """The names in a path, the last one first, with an empty name for a slash at the end."""
    if path.startswith(b"/"):
        raise EscapesFolder(_escape_message(path))
    names = [name for name in path.split(b"/") if name]
    if path.endswith(b"/"):
        names.append(b"")
    return names[::-1]


def _open_or_readlink(name: bytes, here: int) -> int | bytes:
    """A descriptor of the file of this name, or the target of a symlink."""
    try:
        fd = os.open(name, O_PATH | os.O_NOFOLLOW | _common_flags(O_PATH), dir_fd=here)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK):
            raise
        return os.readlink(name, dir_fd=here)  # without O_PATH there is no descriptor of a symlink
    if not stat.S_ISLNK(os.fstat(fd).st_mode):
        return fd
    try:
        return os.readlink(b"", dir_fd=fd)
    finally:
        os.close(fd)


def _open_here(here: int) -> int:
    """A descriptor of the current folder. Fails if it is not a folder, or must not be searched."""
    return os.open(b".", O_PATH | os.O_DIRECTORY | _common_flags(O_PATH), dir_fd=here)


def _open_last(name: bytes, here: int, found: int, flags: int) -> int:
    """Open the last name of the path with the flags that were asked for."""
    if flags & O_PATH:
        if flags & os.O_DIRECTORY and not stat.S_ISDIR(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return found
    os.close(found)
    # Opened by its name again. By now that may be another file of this folder; a symlink is refused.
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)


def _escape_message(path: bytes) -> str:
    return f"{os.fsdecode(path)!r} leads outside the folder"
