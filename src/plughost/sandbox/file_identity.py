"""The identity (device and inode) of a file or directory, to recognise it inside after it was mounted
(`launcher/real_path.c`)."""

from __future__ import annotations

import os
import stat

from plughost.errors import SandboxUnavailable


def file_identity(real: str) -> str:
    """Returns `DEV:INO` of a real path; SandboxUnavailable when a symlink is in the path by now, or the file
    is gone."""
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        for name in filter(None, real.split("/")):
            fd, above = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd), fd
            os.close(above)
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise SandboxUnavailable(
                    f"{real} was replaced while it was being checked: its path now has a symlink"
                )
        info = os.fstat(fd)
        return f"{info.st_dev}:{info.st_ino}"
    except OSError as error:
        raise SandboxUnavailable(
            f"{real} disappeared while it was being checked: {error.strerror}"
        ) from error
    finally:
        os.close(fd)
