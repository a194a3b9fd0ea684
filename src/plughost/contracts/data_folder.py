"""A plugin's own data folder: made for this user alone, and never a folder that somebody else prepared."""

from __future__ import annotations

import os
import stat

from plughost.base.errors import LaunchFailed


def make(folder: str, plugin: str) -> None:
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        about = os.lstat(folder)
    except OSError as error:
        raise LaunchFailed(f"cannot make its data folder {folder!r}: {error}", plugin=plugin) from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise LaunchFailed(
            f"its data folder {folder!r} is not a folder for this user alone",
            plugin=plugin,
            hint="move it away, or make it one: chmod 700",
        )
