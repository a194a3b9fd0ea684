"""Staging folders, in which releases are assembled. Each is locked, and the lock ends with its process."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_staging(parent: Path) -> Iterator[Path]:
    """A new, locked folder, removed afterwards."""
    folder, lock = _create_locked(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: Path) -> None:
    """Removes the folders of killed processes; living ones hold their locks."""
    for folder in parent.iterdir():
        try:
            lock = _open(folder)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def _create_locked(parent: Path) -> tuple[Path, int]:
    while True:
        folder = parent / secrets.token_hex(8)
        os.mkdir(folder, 0o700)
        try:
            lock = _open(folder)
        except FileNotFoundError:  # `sweep` removed it before it was locked
            continue
        except OSError:
            os.rmdir(folder)
            raise
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # `sweep` removed it while we waited for the lock


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
