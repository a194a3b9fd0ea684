"""A plugin's own data folder: made for it alone, and never a folder that somebody else prepared."""

from __future__ import annotations

import os

from plughost.base.errors import LaunchFailed
from plughost.sandbox.users import UIDS, User


def make(folder: str, plugin: str, user: User | None) -> None:
    """`user` is whom the plugin runs as, where that is not the host's own user."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchFailed(f"cannot make its data folder {folder!r}: {error}", plugin=plugin) from error
    try:
        about = os.fstat(fd)
        if not _is_own(about.st_uid) or about.st_mode & 0o077:
            raise LaunchFailed(
                f"its data folder {folder!r} is not a folder for this user alone",
                plugin=plugin,
                hint="move it away, or make it one: chmod 700",
            )
        if user is not None and about.st_uid != user.uid:
            _hand_over(fd, user)
    finally:
        os.close(fd)


def _hand_over(folder: int, user: User) -> None:
    """All that is in it, and the folder itself last: until then the next start begins anew."""
    for _, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, *user, dir_fd=here, follow_symlinks=False)
    os.fchown(folder, *user)


def _is_own(uid: int) -> bool:
    """Ours; of a root host also of a user that only plugins are, as which it may have run before."""
    return uid == os.geteuid() or (os.geteuid() == 0 and uid in UIDS)
