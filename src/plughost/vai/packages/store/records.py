"""The version records of a store: which release each version is, in `versions/PUBLISHER/NAME/VERSION`.

They are read through file descriptors, from the top folder down. Every folder and file on the way must belong
to this user, and no other user may write to it: whoever could, could assign another release to a version. A
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

from plughost._util.text import escape_controls
from plughost.errors import InvalidSpec
from plughost.vai.packages.archive.limits import MAX_DOCUMENT_BYTES
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.release import Release

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HINT = "find out who changed it; then make it yours alone (chown, chmod go-w), or use another --store"


def path_of(versions: Path, release: Release) -> Path:
    """The path of the record for a release's version."""
    return versions / release.package_id / release.version


def read_all(versions: Path) -> Iterator[Release]:
    """All recorded releases; InvalidSpec for a record that others may have changed."""
    with _open_folder(versions, None) as top:
        yield from _records_below(versions, top, 2)


def _records_below(path: Path, folder: int, folders: int) -> Iterator[Release]:
    """The records in a folder; `folders` is the number of levels between it and them."""
    for name in os.listdir(folder):
        try:
            if folders == 0:
                yield _read(path / name, folder)
                continue
            with _open_folder(path / name, folder) as inside:
                yield from _records_below(path / name, inside, folders - 1)
        except _Gone:
            continue


def read(versions: Path, release: Release) -> Release | None:
    """The release that is recorded for the version of `release`; None when there is none."""
    path = path_of(versions, release)
    try:
        with (
            _open_folder(versions, None) as top,
            _open_folder(path.parent.parent, top) as names,
            _open_folder(path.parent, names) as records,
        ):
            return _read(path, records)
    except _Gone:
        return None


def refuse_foreign(path: Path, info: os.stat_result, kind: str) -> None:
    """Raises unless only this user can write to a path: others could replace the installed programs."""
    is_kind = stat.S_ISDIR(info.st_mode) if kind == "folder" else stat.S_ISREG(info.st_mode)
    if not is_kind or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise InvalidSpec(
            f"{escape_controls(str(path))} is not a {kind} that only this user can write to", hint=_HINT
        )


class _Gone(Exception):
    """A folder or record does not exist, or was removed since it was listed."""


@contextmanager
def _open_folder(path: Path, parent: int | None) -> Iterator[int]:
    """A descriptor of a folder, opened relative to the folder `above` if that is given."""
    fd = _open_checked(path, parent, "folder")
    try:
        yield fd
    finally:
        os.close(fd)


def _read(path: Path, folder: int) -> Release:
    with open(_open_checked(path, folder, "file"), "rb") as file:
        content = file.read(MAX_DOCUMENT_BYTES)
    try:
        release = msgspec.json.decode(content, type=Release)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error
    if path_of(path.parents[2], release) != path:  # a copy, or changed: it would speak for another version
        raise _damaged(path, f"it is about {escape_controls(str(release)[:200])}")
    if not is_digest(release.digest):
        raise _damaged(path, "its digest is not valid")
    return release


def _damaged(path: Path, why: str) -> InvalidSpec:
    return InvalidSpec(
        f"{escape_controls(str(path))} is damaged: {why}", hint="remove it and reinstall the package"
    )


def _open_checked(path: Path, parent: int | None, kind: str) -> int:
    """A descriptor of a checked file or folder: follows no symlink, and does not block on a pipe."""
    try:
        fd = os.open(path if parent is None else path.name, _OPEN, dir_fd=parent)
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
