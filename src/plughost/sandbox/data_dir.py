"""Creates a plugin's data directory, and refuses to use a directory that belongs to somebody else."""

from __future__ import annotations

import os

from plughost._util import data_owner
from plughost.contracts.base import DataFolder
from plughost.errors import LaunchFailed
from plughost.sandbox.users import UIDS, User


def create_data_dir(folder: DataFolder, plugin: str, user: User | None) -> None:
    """Create the data directory, or check that an existing one may be used; LaunchFailed when it may not.

    `user` is the user that the plugin runs as, when that is not the host's own user. The directory is handed
    over to that user only if the host has just created it or `folder.owner` names the plugin as its owner: a
    directory that merely exists already is never given to another user.
    """
    path = folder.path
    try:
        _make_parents(folder, plugin)
        if folder.owner is not None:
            data_owner.claim(path, folder.owner)
        is_plugins_own = folder.owner is not None
        try:
            os.mkdir(path, 0o700)
            is_plugins_own = True
        except FileExistsError:
            pass
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except data_owner.NotOwner as error:
        raise LaunchFailed(
            f"its data folder cannot be used: {error}", plugin=plugin, hint=data_owner.REMEDY
        ) from error
    except OSError as error:
        raise LaunchFailed(f"cannot make its data folder {path!r}: {error}", plugin=plugin) from error
    try:
        about = os.fstat(fd)
        if not _is_own(about.st_uid) or about.st_mode & 0o077:
            raise LaunchFailed(
                f"its data folder {path!r} is not private to this user",
                plugin=plugin,
                hint="move the folder away, or make it private: chmod 700",
            )
        if user is not None and about.st_uid != user.uid:
            if not is_plugins_own:
                raise LaunchFailed(
                    f"its folder {path!r} exists already and belongs to another user",
                    plugin=plugin,
                    hint="name a folder that does not exist yet: the host creates it for the plugin alone",
                )
            _hand_over(fd, user)
    finally:
        os.close(fd)


def _make_parents(folder: DataFolder, plugin: str) -> None:
    parent = os.path.dirname(folder.path)
    if folder.make_parents:
        os.makedirs(parent, exist_ok=True)
    elif not os.path.isdir(parent):
        raise LaunchFailed(
            f"the folder {parent!r} for the plugin's data does not exist",
            plugin=plugin,
            hint=f"make it: mkdir -p {parent}",
        )


def _hand_over(folder: int, user: User) -> None:
    """Change the owner of everything in the directory, and of the directory itself last: if the host dies in
    between, the next start begins again."""
    for _, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, *user, dir_fd=here, follow_symlinks=False)
    os.fchown(folder, *user)


def _is_own(uid: int) -> bool:
    """Whether this user owns it. For a root host, uids of plugins count too: the plugin may have run as one
    before."""
    return uid == os.geteuid() or (os.geteuid() == 0 and uid in UIDS)
