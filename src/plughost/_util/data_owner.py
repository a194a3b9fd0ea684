"""Ownership of data that is stored under a plugin's name: it belongs to the plugin folder that created it.

Two folders may hold plugins of the same name. Only the one that created the data gets it: its path is
recorded beside the data, in a file that no plugin can write. `adopt` gives the data to another folder, for a
plugin that was moved.
"""

from __future__ import annotations

import os
import tempfile

MAX_RECORD = 16 << 10


class NotOwner(Exception):
    """Raised when the data belongs to the plugin in the folder `owner`; None when the owner is not known."""

    def __init__(self, path: str, owner: str | None) -> None:
        owner_text = "its owner is unknown" if owner is None else f"it belongs to the plugin in {owner}"
        super().__init__(f"{path} already exists, and {owner_text}")
        self.owner = owner


REMEDY = (
    "if the plugin was moved here, run `plughost data adopt` with its folder; otherwise rename one plugin"
)


def record_path(path: str) -> str:
    """The path of the file that names the owner of the data at `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.owner")


def owner_of(path: str) -> str | None:
    """The folder of the plugin that owns the data at `path`; None when that is not known."""
    try:
        fd = os.open(record_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.fsdecode(os.read(fd, MAX_RECORD)) or None
    finally:
        os.close(fd)


def claim(path: str, owner: str) -> None:
    """Check that the data at `path` belongs to `owner`; if there is no data yet, record `owner`.

    Raises NotOwner when it belongs to another, OSError when the owner cannot be read. The parent folder must
    exist and belong to the host. An empty data folder can be claimed again once its owner's folder is gone.
    """
    found = owner_of(path)
    if found != owner and not _has_data(path) and (found is None or not os.path.lexists(found)):
        _write_record(path, owner, replace=found is not None)
        found = owner_of(path)
    if found != owner:
        raise NotOwner(path, found)


def adopt(path: str, owner: str) -> None:
    """Make `owner` the owner of the data at `path`, whoever had it before."""
    _write_record(path, owner, replace=True)


def _has_data(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return os.path.lexists(path)


def _write_record(path: str, owner: str, *, replace: bool) -> None:
    """Write the record atomically: of two that claim at the same time, one becomes the owner."""
    record = record_path(path)
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
            pass  # another process was faster
        os.unlink(new)
    except BaseException:
        if os.path.lexists(new):
            os.unlink(new)
        raise
