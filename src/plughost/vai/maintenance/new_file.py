"""New files that are whole or absent: a program that is killed leaves none that looks complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plughost._util.fsync import sync
from plughost.errors import HostFailed, InvalidSpec


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """A temporary path, beside `path`, for a new file. The file is synced and gets its name at the end.

    InvalidSpec when there is a file of that name, which is never replaced, or no folder for it. HostFailed
    when the disk fails.
    """
    path = os.path.abspath(path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.partial")
    try:
        if not os.path.isdir(folder):
            raise InvalidSpec(f"there is no folder {folder}", hint="create the folder first")
        _check_is_new(path)
        try:
            yield temporary
            _sync_file(temporary)
            _give_name(temporary, path)
            sync(Path(folder))
        finally:
            for suffix in ("", "-journal", "-wal", "-shm"):  # those of SQLite, if it is a database
                Path(temporary + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise HostFailed(
            f"{path} cannot be written: {error.strerror}",
            hint="check its folder, the owner and the free space",
        ) from error


def _check_is_new(path: str) -> None:
    if os.path.lexists(path):
        raise InvalidSpec(f"{path} already exists", hint="choose another name: no file is replaced")


def _sync_file(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _give_name(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces a file
    except FileExistsError:
        _check_is_new(path)
        raise
    except OSError:  # a file system without hard links
        _check_is_new(path)
        os.rename(temporary, path)
