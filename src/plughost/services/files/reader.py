"""Files and folders for plugins to read: by absolute path, beneath the folders of granted capabilities.

Everything here blocks; the host calls it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from plughost._util.text import bounded
from plughost.errors import Denied, InvalidSpec
from plughost.permissions.open_beneath import O_PATH, EscapesFolder, identity, open_beneath
from plughost.permissions.public_files import others_may_read

MOST_ENTRIES = 100_000
LARGEST = (12 << 20) - (16 << 10)
"""In base64, with its envelope, it fits into a frame of 16 MiB."""
LONGEST = 4096
"""What the system takes for a path; a request may be as long as a frame."""


class FolderEntry(msgspec.Struct, frozen=True):
    """One name in a folder, told as it stands there: a symlink to a folder is no folder."""

    name: str
    is_dir: bool
    size: int = 0
    modified_ns: int = 0
    """When its content last changed, in nanoseconds of Unix time."""


class FileContent(NamedTuple):
    """Bytes of a file, where in it they begin, and how large it was then."""

    data: bytes
    offset: int
    size: int


class ByManifest(msgspec.Struct, frozen=True):
    """Capabilities that are held by a manifest's word alone: of their folders, only what every user of this
    machine may read is given, and what lies in a folder that the operator has `allowed`."""

    capabilities: frozenset[str] = frozenset()
    allowed: tuple[str, ...] = ()

    def check(self, capability: str, fd: int) -> None:
        """Denied for what was opened, if that needs the operator's word."""
        if capability not in self.capabilities or others_may_read(fd):
            return
        real = os.readlink(f"/proc/self/fd/{fd}")
        if not any(_is_beneath(real, os.path.realpath(folder)) for folder in self.allowed):
            raise Denied(
                f"capability denied: {capability}",
                hint="other users of this machine cannot read it, so its manifest's word is not enough: to "
                f"allow it, grant {capability} by name, or allow its folder: --allow read=FOLDER",
            )


NOTHING_TOLD = ByManifest()


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Files:
    """What lies beneath the folder of a capability, for those who hold the capability.

    A hard link in a folder is a file of that folder: a file has no other place than its names.
    """

    def __init__(self, roots: Mapping[str, str | os.PathLike[str]]) -> None:
        self._roots: dict[str, str] = {}
        for capability, root in roots.items():
            folder = os.path.expanduser(os.fspath(root))
            if not os.path.isabs(folder) or "\0" in folder:
                raise InvalidSpec(
                    f"the folder of {capability} must be an absolute path, it is {os.fspath(root)!r}"
                )
            self._roots[capability] = folder

    def read_dir(
        self, granted: Collection[str], path: str, told: ByManifest = NOTHING_TOLD
    ) -> list[FolderEntry]:
        """What is in a folder, in the order of the filesystem."""
        place = self._place("read_dir", granted, path)
        with (
            _told("read_dir", path, place.capability),
            _closing(place.open(os.O_RDONLY | os.O_DIRECTORY)) as folder,
        ):
            told.check(place.capability, folder)
            return list(_entries(folder))

    def read_file(
        self,
        granted: Collection[str],
        path: str,
        limit: int = LARGEST,
        told: ByManifest = NOTHING_TOLD,
    ) -> bytes:
        """All of a regular file; one that is larger than `limit` is refused."""
        place = self._place("read", granted, path)
        with (
            _told("read", path, place.capability),
            _closing(place.open(O_PATH)) as seen,
            _closing(_readable(seen, place, limit, told)) as file,
        ):
            return _content(file, limit)

    def read_part(
        self,
        granted: Collection[str],
        path: str,
        offset: int,
        length: int,
        told: ByManifest = NOTHING_TOLD,
    ) -> FileContent:
        """Up to `length` bytes of a regular file of any size, fewer at its end and none behind it."""
        place = self._place("read", granted, path)
        with (
            _told("read", path, place.capability),
            _closing(place.open(O_PATH)) as seen,
            _closing(_readable(seen, place, None, told)) as file,
        ):
            data = os.pread(file, min(length, LARGEST), offset)
            return FileContent(data, offset, os.fstat(file).st_size)

    def _place(self, verb: str, granted: Collection[str], path: str) -> GrantedFolder:
        """Where a request leads, decided by names alone; the guard sees to it that it does."""
        _check_name(verb, path)
        if not path.startswith("/"):
            raise Denied("capability denied: fs")
        names = path.split("/")
        whole = _collapsed(names)
        spellings = {capability: _spellings(folder) for capability, folder in self._roots.items()}
        best, capability, above = (-1, False), "fs", []
        for candidate, spelled in spellings.items():
            for spelling in spelled:
                rank = len(spelling), candidate in granted
                if whole[: len(spelling)] == spelling and rank > best:
                    best, capability, above = rank, candidate, spelling
        if not best[1]:
            raise Denied(f"capability denied: {capability}")
        outer = spellings[capability][-1]
        closed = [
            self._roots[other]
            for other, (*_, inner) in spellings.items()
            if other not in granted and len(inner) > len(outer) and inner[: len(outer)] == outer
        ]
        return GrantedFolder(capability, self._roots[capability], _below(names, above), closed)


class GrantedFolder(msgspec.Struct, frozen=True):
    """A path below the folder of a capability."""

    capability: str
    folder: str
    below: str
    closed: list[str]
    """Folders within the folder that only another capability opens: no symlink leads there."""

    def open(self, flags: int) -> int:
        # The folder itself is the operator's word: it and what is above it may be symlinks.
        with _closing(os.open(self.folder, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
            return open_beneath(folder, self.below, flags, closed=_identities(self.closed))


def _identities(folders: list[str]) -> Set[tuple[int, int]]:
    found = set()
    for folder in folders:
        try:
            info = os.stat(folder)
        except OSError:
            continue  # where we see no folder there is nothing to read
        found.add((info.st_dev, info.st_ino))
    return found


def _check_name(verb: str, path: str) -> None:
    if len(path) > LONGEST:
        raise _invalid(verb, bounded(path, 100), os.strerror(errno.ENAMETOOLONG))
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise _invalid(verb, path, "no file has such a name")


def _spellings(folder: str) -> list[list[str]]:
    """A folder's names as they were configured and, the last, as they are without symlinks."""
    return [_collapsed(folder.split("/")), _collapsed(os.path.realpath(folder).split("/"))]


def _collapsed(names: list[str]) -> list[str]:
    """Names without `.` and `..`; good enough to choose a folder by, never to open one."""
    collapsed: list[str] = []
    for name in names:
        _take(collapsed, name)
    return collapsed


def _take(collapsed: list[str], name: str) -> None:
    if name == "..":
        del collapsed[-1:]
    elif name not in ("", "."):
        collapsed.append(name)


def _below(names: list[str], above: list[str]) -> str:
    """The rest of the path from where it first stands in the folder, every `..` still in it."""
    walked: list[str] = []
    at = 0
    while walked != above:
        _take(walked, names[at])
        at += 1
    return "./" + "/".join(names[at:])


def _readable(seen: int, place: GrantedFolder, limit: int | None, told: ByManifest) -> int:
    """Opens the file that was looked at. A device or FIFO is not opened: that alone can do something."""
    info = os.fstat(seen)
    told.check(place.capability, seen)
    if stat.S_ISDIR(info.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if limit is not None and info.st_size > limit:
        raise _too_large(limit)
    if not O_PATH:
        return os.dup(seen)
    try:
        file = os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        file = place.open(os.O_RDONLY)  # no /proc here: by its name, if it is still the same file
    if identity(file) != (info.st_dev, info.st_ino):
        os.close(file)
        raise OSError(errno.ESTALE, "it was replaced while it was opened")
    return file


def _content(file: int, limit: int) -> bytes:
    """Until the end, wherever that is by then; sizes change, and some files have none."""
    pieces: list[bytes] = []
    room = limit + 1
    wanted = os.fstat(file).st_size + 1
    while piece := os.read(file, min(wanted, room)):
        pieces.append(piece)
        room -= len(piece)
        if room <= 0:
            raise _too_large(limit)
        wanted = 2**20
    return b"".join(pieces)


def _entries(folder: int) -> Iterator[FolderEntry]:
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MOST_ENTRIES:
                raise OSError(errno.EFBIG, f"more than {MOST_ENTRIES} entries")
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_dir = stat.S_ISDIR(info.st_mode)
            yield FolderEntry(_lossy(entry.name), is_dir, 0 if is_dir else info.st_size, info.st_mtime_ns)


@contextmanager
def _told(verb: str, path: str, capability: str) -> Iterator[None]:
    """Failures in the words that a plugin gets to read."""
    try:
        yield
    except EscapesFolder:
        raise Denied(f"capability denied: {capability}") from None
    except OSError as error:
        raise _invalid(verb, path, error.strerror or str(error)) from None


@contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _too_large(limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit} bytes")


def _invalid(verb: str, path: str, reason: str) -> InvalidSpec:
    return InvalidSpec(f"{verb} {_lossy(path)}: {reason}")


def _lossy(name: str) -> str:
    """A name that any encoder takes: bytes that are no UTF-8 become U+FFFD."""
    try:
        return os.fsencode(name).decode("utf-8", "replace")
    except UnicodeEncodeError:
        return name.encode("utf-8", "replace").decode()
