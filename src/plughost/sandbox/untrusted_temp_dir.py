"""Temporary folders whose contents a plugin may have made: nothing in them is followed when they go.

Used instead of `tempfile.TemporaryDirectory`, whose removal recurses and, in some versions of Python, changes
the mode of what a symlink in the folder leads to.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from plughost._util.rmtree import rmtree

PASSABLE = 0o711
"""Of a root host, a confined plugin is another user: it passes through, and lists nothing."""
READABLE = 0o755


@contextmanager
def temporary_folder(prefix: str, mode: int = 0o700) -> Iterator[str]:
    """A new folder with this mode, gone afterwards with all that is in it."""
    path = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
    try:
        set_mode(path, mode)
        yield path
    finally:
        rmtree(path)


def make_folder(path: str, mode: int) -> None:
    """A new folder with this mode, whatever the umask; OSError when something takes its place meanwhile."""
    os.mkdir(path, 0o700)
    set_mode(path, mode)


def set_mode(path: str, mode: int) -> None:
    """Of a folder itself, never of where a symlink in its place leads to."""
    folder = open_folder(path)
    try:
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


def open_folder(path: str) -> int:
    """A folder itself, never where a symlink in its place leads to; OSError when it is not a folder."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
