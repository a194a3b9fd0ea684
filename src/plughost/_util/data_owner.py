"""The owner of data that is kept under a plugin's name: the plugin folder for which it was made.

Two folders may hold plugins of one name. Only the one that made the data gets it: its path is recorded beside
the data, in a file that no plugin can write. `adopt` hands the data over, for a plugin that has moved.
"""

from __future__ import annotations

import os
import tempfile

LARGEST = 16 << 10


class NotOwner(Exception):
    """The data belongs to the plugin in the folder `owner`, or to nobody known when that is None."""

    def __init__(self, path: str, owner: str | None) -> None:
        whose = (
            "no plugin is known to have made it" if owner is None else f"it belongs to the plugin in {owner}"
        )
        super().__init__(f"{path} is there already, and {whose}")
        self.owner = owner


REMEDY = (
    "if the plugin was moved here, run `plughost data adopt` with its folder; if not, rename one of the two"
)


def record_of(path: str) -> str:
    """The file that names the owner of the data at `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.owner")


def owner_of(path: str) -> str | None:
    """The folder of the plugin that owns the data at `path`; None when that is not known."""
    try:
        fd = os.open(record_of(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.fsdecode(os.read(fd, LARGEST)) or None
    finally:
        os.close(fd)


def claim(path: str, owner: str) -> None:
    """Make sure that the data at `path` belongs to `owner`, who gets it if there is none yet.

    NotOwner when it belongs to another, OSError when that cannot be found out. The folder around it must
    exist, and be the host's. An empty folder is free again once the plugin that it was made for is gone.
    """
    found = owner_of(path)
    if found != owner and not _has_data(path) and (found is None or not os.path.lexists(found)):
        _record(path, owner, replace=found is not None)
        found = owner_of(path)
    if found != owner:
        raise NotOwner(path, found)


def adopt(path: str, owner: str) -> None:
    """Hand the data at `path` over to `owner`, whoever had it before."""
    _record(path, owner, replace=True)


def _has_data(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return os.path.lexists(path)


def _record(path: str, owner: str, *, replace: bool) -> None:
    """Whole or not at all: of two that claim at once, one is the owner."""
    record = record_of(path)
    fd, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".owner-")
    try:
        with open(fd, "wb") as file:
            file.write(os.fsencode(owner))
            file.flush()
            os.fsync(fd)
        if replace:
            os.replace(new, record)
            return
        try:
            os.link(new, record)
        except FileExistsError:
            pass  # another was first
        os.unlink(new)
    except BaseException:
        if os.path.lexists(new):
            os.unlink(new)
        raise
