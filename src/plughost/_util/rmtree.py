"""rmtree: removes a folder tree that a plugin has written, however deep it is, and safe against renames
meanwhile.

It does not descend into the tree. The subfolders of a folder are moved up to the top before the folder is
removed, so that no path grows, nothing recurses, and only two directories are open at a time.
"""

from __future__ import annotations

import math
import os
import stat


def rmtree(path: str, max_folders: float = math.inf) -> None:
    """Remove a folder with everything in it. No symlink is followed. What cannot be removed is left.

    It stops after `max_folders` folders: a plugin that still runs could create new ones for ever.
    """
    try:
        top = _open_folder(path, None)
    except OSError:
        return
    try:
        moved = removed = 0
        while removed < max_folders and (folders := _remove_files(top)):
            for name in folders:
                moved = _flatten(top, name, moved)
            removed += len(folders)
        os.rmdir(path)
    except OSError:
        pass
    finally:
        os.close(top)


def _remove_files(folder: int) -> list[str]:
    """Remove everything in a folder but its subfolders, and return their names."""
    folders = []
    for name in os.listdir(folder):
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            folders.append(name)
        else:
            os.unlink(name, dir_fd=folder)
    return folders


def _flatten(top: int, name: str, moved: int) -> int:
    """Empty and remove a folder of `top`: its subfolders move up into `top`. Returns the last number used as
    a name."""
    here = _open_folder(name, top)
    try:
        for below in _remove_files(here):
            os.close(_open_folder(below, here))
            moved += 1
            while _exists(f".{moved}", top):
                moved += 1
            os.rename(below, f".{moved}", src_dir_fd=here, dst_dir_fd=top)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)
    return moved


def _open_folder(name: str, folder: int | None) -> int:
    """Open a folder, after giving its owner access to it."""
    path_fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        proc_path = f"/proc/self/fd/{path_fd}"
        os.chmod(proc_path, 0o700)
        return os.open(proc_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(path_fd)


def _exists(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
