"""Durable writes: files and folders that are synced to the disk (fsync)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_CHUNK = 1 << 20


class Readable(Protocol):
    """A source of bytes, such as an open file."""

    def read(self, size: int, /) -> bytes: ...


def write_new(path: Path, source: bytes | Readable, mode: int) -> int:
    """Write all of `source` to a new file and sync it; the number of bytes."""
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
    """Create a folder with exactly this mode, whatever the umask. An existing one is left as it is."""
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
    """Sync a folder, so that files created, moved or removed in it are on the disk."""
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
