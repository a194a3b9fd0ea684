"""Files and folders that are on the disk, not only on their way there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_CHUNK = 1 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def write_new(path: Path, source: bytes | Readable, mode: int) -> int:
    """A new file with all of `source`, synced; how many bytes there were."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    written = 0
    try:
        if isinstance(source, bytes):
            written = _write_all(fd, source)
        else:
            while data := source.read(_CHUNK):
                written += _write_all(fd, data)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    return written


def make_folder(path: Path, mode: int = 0o755) -> None:
    """There is no harm if it is there. The mode is meant, whatever the umask."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def sync(folder: Path) -> None:
    """Names that were made, moved or removed in a folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    return len(data)
