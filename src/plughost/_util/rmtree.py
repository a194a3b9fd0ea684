"""Removes a folder that a plugin has filled: however deep it is, and whatever is swapped meanwhile.

Folders are never walked down into. What a folder holds is moved up to the top before it is removed, so that
no path grows, nothing recurses, and only two directories are open at a time.
"""

from __future__ import annotations

import math
import os
import stat


def rmtree(path: str, most: float = math.inf) -> None:
    """Nothing outside is touched: no symlink is followed. What cannot be removed is left.

    So is what is there after `most` folders: a plugin that still runs may make them for ever.
    """
    try:
        top = _opened(path, None)
    except OSError:
        return
    try:
        moved = seen = 0
        while seen < most and (folders := _emptied(top)):
            for name in folders:
                moved = _flattened(top, name, moved)
            seen += len(folders)
        os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(top)


def _emptied(folder: int) -> list[str]:
    """Remove all but the folders in it; their names."""
    folders = []
    for name in os.listdir(folder):
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            folders.append(name)
        else:
            os.unlink(name, dir_fd=folder)
    return folders


def _flattened(top: int, name: str, moved: int) -> int:
    here = _opened(name, top)
    try:
        for below in _emptied(here):
            os.close(_opened(below, here))
            moved += 1
            while _exists(f".{moved}", top):
                moved += 1
            os.rename(below, f".{moved}", src_dir_fd=here, dst_dir_fd=top)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)
    return moved


def _opened(name: str, folder: int | None) -> int:
    """A folder, made accessible to its owner on the way."""
    looked = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        own = f"/proc/self/fd/{looked}"
        os.chmod(own, 0o700)
        return os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(looked)


def _exists(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
