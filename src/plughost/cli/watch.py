"""Which files of a folder have changed: found by looking, which works on every file system."""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Collection, Iterator
from pathlib import Path

MOST = 10_000
"""Files that are looked at, and folders; a plugin's folder that holds more is not all source."""
IGNORED = ("__pycache__", "node_modules", "target", "*.pyc", "*.swp", "*.tmp", "*~", "*.log", ".*")

Look = dict[str, tuple[int, int, int, int]]
"""By path: when content and mode last changed, the size, and the mode, since such clocks are coarse."""


def look(folder: Path, ignored: Collection[str] = ()) -> Look:
    """The files below a folder as they are now."""
    seen: Look = {}
    for path in itertools.islice(_files(str(folder), (*IGNORED, *ignored)), MOST):
        try:
            about = os.stat(path)
        except OSError:
            continue  # gone since
        is_now = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_mode)
        seen[os.path.relpath(path, folder)] = is_now
    return seen


def _files(folder: str, ignored: Collection[str]) -> Iterator[str]:
    """One folder after the other, however deep they lie in each other, and not any number of them."""
    waiting = [folder]
    for _ in range(MOST):
        if not waiting:
            return
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        wanted = [entry for entry in entries if not any(fnmatch.fnmatch(entry.name, one) for one in ignored)]
        inside = {entry.path: entry.is_dir(follow_symlinks=False) for entry in wanted}
        waiting += reversed([path for path, is_folder in inside.items() if is_folder])
        # A symlink that leads to itself is no file, and no error.
        yield from (path for path, is_folder in inside.items() if not is_folder and os.path.isfile(path))


def changed(before: Look, after: Look) -> list[str]:
    """What is new, gone or other than before."""
    return sorted(path for path in before | after if before.get(path) != after.get(path))
