"""Temporary directories with untrusted contents: removing one follows no symlink that a plugin may have put
there.

Used instead of `tempfile.TemporaryDirectory`, whose removal recurses and, in some versions of Python, changes
the mode of a symlink's target.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from plughost._util.rmtree import rmtree

PASSABLE = 0o711
"""The confined plugins of a root host are other users: they may pass through the directory, but not list
it."""
READABLE = 0o755


@contextmanager
def temporary_folder(prefix: str, mode: int = 0o700) -> Iterator[str]:
    """A context with a new directory of this mode, removed at its end with everything in it."""
    path = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
    try:
        set_mode(path, mode)
        yield path
    finally:
        rmtree(path)


def make_folder(path: str, mode: int) -> None:
    """Create a directory with this mode, whatever the umask; OSError when something else takes its place
    meanwhile."""
    os.mkdir(path, 0o700)
    set_mode(path, mode)


def set_mode(path: str, mode: int) -> None:
    """Change the mode of a directory, never of a symlink's target."""
    folder = open_folder(path)
    try:
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


def open_folder(path: str) -> int:
    """Open a directory without following a symlink; OSError when it is not a directory."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
