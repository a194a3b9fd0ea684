"""The source tree of a package: the files of a folder that are packed, in the order of the archive."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from plughost._util.located.document import LocatedProblem, read_text
from plughost._util.text import escape_controls
from plughost.errors import InvalidConfig
from plughost.permissions.open_beneath import EscapesFolder, open_beneath
from plughost.vai.packages.archive.canonical_tar import ArchiveMember
from plughost.vai.packages.archive.ignore import FILE, IgnoreRules
from plughost.vai.packages.archive.legal_paths import Listing, from_disk, to_disk
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits

MAX_PROBLEMS = 20
"""Problems reported at a time."""
_NOT_A_FILE = "neither a file nor a folder"


class SourceTree(msgspec.Struct, frozen=True):
    """A folder and those of its files that are packed."""

    path: Path
    members: list[ArchiveMember]

    def open(self, member: ArchiveMember) -> BinaryIO:
        """Opens a file of the folder, never one outside of it."""
        root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return os.fdopen(open_beneath(root, to_disk(member.name)), "rb")
        finally:
            os.close(root)


def packable(path: Path, limits: PackageLimits = DEFAULT_LIMITS) -> SourceTree:
    """The files of an author's folder that are packed; InvalidConfig lists everything that cannot be."""
    lines = read_text(path / FILE).splitlines() if (path / FILE).exists() else []
    return list_files(path, limits, IgnoreRules(lines))


def list_files(
    path: Path, limits: PackageLimits = DEFAULT_LIMITS, ignore: IgnoreRules | None = None
) -> SourceTree:
    """All files of a folder but the ignored ones; InvalidConfig lists everything that is not a regular file.

    With ignore rules it is an author's folder, where a symlink stands for the file that it leads to.
    """
    problems: list[LocatedProblem] = []
    members: list[ArchiveMember] = []
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in _names(path, "", ignore, problems, limits.depth):
                found = _inspect(root, name)
                if isinstance(found, ArchiveMember):
                    members.append(found)
                else:
                    problems.append(_problem(path, name, found))
        finally:
            os.close(root)
    except OSError as error:
        raise InvalidConfig([LocatedProblem(str(path), 0, "", error.strerror or str(error))]) from error
    members.sort(key=lambda member: member.name.encode(errors="surrogateescape"))
    problems += _listing_problems(path, members, limits)
    if problems:
        raise InvalidConfig(_first_problems(problems))
    return SourceTree(path, members)


def _names(
    path: Path, prefix: str, ignore: IgnoreRules | None, problems: list[LocatedProblem], depth: int
) -> Iterator[str]:
    with os.scandir(path / to_disk(prefix)) as entries:
        found = list(entries)
    for entry in found:
        name = f"{prefix}{from_disk(entry.name)}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if ignore is not None and ignore(name, is_folder=is_folder):
            continue
        if ignore is None and entry.is_symlink():
            problems.append(_problem(path, name, "a link"))
        elif not is_folder:
            yield name
        elif depth <= 1:
            problems.append(_problem(path, name, "too many folders deep"))
        else:
            yield from _names(path, f"{name}/", ignore, problems, depth - 1)


def _inspect(root: int, name: str) -> ArchiveMember | str:
    """The file, or why it is not one. A symlink is followed if it leads to a file in the same folder."""
    try:
        fd = open_beneath(root, to_disk(name))
    except EscapesFolder:
        return "a link out of the folder; put the file itself here"
    except OSError as error:
        return _NOT_A_FILE if error.errno == errno.ENXIO else error.strerror or str(error)
    try:
        info = os.fstat(fd)
    finally:
        os.close(fd)
    if stat.S_ISDIR(info.st_mode):
        return "a link to a folder; put the folder itself here"
    if not stat.S_ISREG(info.st_mode):
        return _NOT_A_FILE
    # Only the owner's bit counts: the others depend on the umask.
    return ArchiveMember(name, bool(info.st_mode & stat.S_IXUSR), info.st_size)


def _problem(path: Path, name: str, why: str) -> LocatedProblem:
    return LocatedProblem(escape_controls(str(path / name)), 0, "", why)


def _first_problems(problems: list[LocatedProblem]) -> list[LocatedProblem]:
    more = len(problems) - MAX_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MAX_PROBLEMS], LocatedProblem(problems[0].file, 0, "", f"and {more} more like these")]


def _listing_problems(
    path: Path, members: list[ArchiveMember], limits: PackageLimits
) -> Iterator[LocatedProblem]:
    listing = Listing(limits)
    for member in members:
        try:
            listing.add(member.name)
        except ValueError as error:
            yield _problem(path, member.name, str(error))
        if member.size > limits.file_bytes:
            yield _problem(path, member.name, f"larger than {limits.file_bytes} bytes")
