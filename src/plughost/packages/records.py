"""The records of a store: which release each version is, in `versions/PUBLISHER/NAME/VERSION`.

They are read through descriptors, from the folder of all records down. Every folder and file on the way must
belong to this user, and no other may write to it: whoever could, could give a version another release. A
record counts for the version that its path says, and for no other.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.base.text import visible
from plughost.packages.limits import SMALL
from plughost.packages.oci.digests import is_digest
from plughost.packages.release import Release

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HINT = "find out who changed it; then make it yours alone (chown, chmod go-w), or use another --store"


def path_of(versions: Path, release: Release) -> Path:
    return versions / release.package_id / release.version


def read_all(versions: Path) -> Iterator[Release]:
    """Every release that is written down; InvalidSpec for one that others may have changed."""
    with _folder(versions, None) as top:
        yield from _below(versions, top, 2)


def _below(path: Path, folder: int, folders: int) -> Iterator[Release]:
    """The records in a folder; `folders` is how many further ones are between it and them."""
    for name in os.listdir(folder):
        try:
            if folders == 0:
                yield _read(path / name, folder)
                continue
            with _folder(path / name, folder) as inside:
                yield from _below(path / name, inside, folders - 1)
        except _Gone:
            continue


def read(versions: Path, release: Release) -> Release | None:
    """The release that is written down for the version of another; None when there is none."""
    path = path_of(versions, release)
    try:
        with (
            _folder(versions, None) as top,
            _folder(path.parent.parent, top) as names,
            _folder(path.parent, names) as records,
        ):
            return _read(path, records)
    except _Gone:
        return None


def refuse_foreign(path: Path, info: os.stat_result, kind: str) -> None:
    """Whoever else may write here could put other programs in place of the installed ones."""
    is_kind = stat.S_ISDIR(info.st_mode) if kind == "folder" else stat.S_ISREG(info.st_mode)
    if not is_kind or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise InvalidSpec(
            f"{visible(str(path))} is not a {kind} that only this user can write to", hint=_HINT
        )


class _Gone(Exception):
    """A folder or record was removed since it was listed, or never was there."""


@contextmanager
def _folder(path: Path, above: int | None) -> Iterator[int]:
    """A descriptor of a folder, which lies in the folder `above` if that is given."""
    fd = _opened(path, above, "folder")
    try:
        yield fd
    finally:
        os.close(fd)


def _read(path: Path, folder: int) -> Release:
    with open(_opened(path, folder, "file"), "rb") as file:
        content = file.read(SMALL)
    try:
        release = msgspec.json.decode(content, type=Release)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error
    if path_of(path.parents[2], release) != path:  # a copy, or changed: it would speak for another version
        raise _damaged(path, f"it is about {visible(str(release)[:200])}")
    if not is_digest(release.digest):
        raise _damaged(path, "its digest is not one")
    return release


def _damaged(path: Path, why: str) -> InvalidSpec:
    return InvalidSpec(f"{visible(str(path))} is damaged: {why}", hint="remove it and install again")


def _opened(path: Path, above: int | None, kind: str) -> int:
    """A descriptor of what was checked: no symlink is followed, and no pipe waited for."""
    try:
        fd = os.open(path if above is None else path.name, _OPEN, dir_fd=above)
    except FileNotFoundError:
        raise _Gone from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a symlink, a socket
            refuse_foreign(path, os.lstat(path), kind)
        raise
    try:
        refuse_foreign(path, os.fstat(fd), kind)
    except BaseException:
        os.close(fd)
        raise
    return fd
