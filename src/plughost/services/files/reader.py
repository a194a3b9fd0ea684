"""Files: a bounded reader of files and folders for plugins, beneath the folders of granted capabilities.

Everything here blocks; the service calls it in a thread.
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

MAX_ENTRIES = 100_000
LARGEST = (12 << 20) - (16 << 10)
"""Bytes of a file: in base64, with its envelope, it fits into a frame of 16 MiB."""
MAX_PATH = 4096
"""Characters of a path, the system's limit; a request may be as long as a frame."""


class FolderEntry(msgspec.Struct, frozen=True):
    """An entry of a folder. Symlinks are not followed: a symlink to a folder is not a folder."""

    name: str
    is_dir: bool
    size: int = 0
    modified_ns: int = 0
    """When its content last changed, in nanoseconds of Unix time."""


class FileContent(NamedTuple):
    """Bytes of a file, their offset, and the size of the file at that time."""

    data: bytes
    offset: int
    size: int


class ByManifest(msgspec.Struct, frozen=True):
    """Capabilities that a plugin has only by its manifest: in their folders it may read only what every user
    of this machine may read, and what is in a folder that the operator has `allowed`."""

    capabilities: frozenset[str] = frozenset()
    allowed: tuple[str, ...] = ()

    def check(self, capability: str, fd: int) -> None:
        """Raise Denied if the opened file needs a grant by the operator."""
        if capability not in self.capabilities or others_may_read(fd):
            return
        real = os.readlink(f"/proc/self/fd/{fd}")
        if not any(_is_beneath(real, os.path.realpath(folder)) for folder in self.allowed):
            raise Denied(
                f"capability denied: {capability}",
                hint="a plugin's manifest cannot grant access to a file that other users of this machine "
                f"cannot read: to allow it, grant {capability} by name, or its folder: --allow read=FOLDER",
            )


NO_MANIFEST_GRANTS = ByManifest()


def _is_beneath(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Files:
    """Reads files beneath the folder of a capability, for plugins that have the capability.

    A hard link in a folder counts as a file of that folder.
    """

    def __init__(self, roots: Mapping[str, str | os.PathLike[str]]) -> None:
        self._roots: dict[str, str] = {}
        for capability, root in roots.items():
            folder = os.path.expanduser(os.fspath(root))
            if not os.path.isabs(folder) or "\0" in folder:
                raise InvalidSpec(
                    f"the folder of {capability} must be an absolute path, not {os.fspath(root)!r}"
                )
            self._roots[capability] = folder

    def read_dir(
        self, granted: Collection[str], path: str, by_manifest: ByManifest = NO_MANIFEST_GRANTS
    ) -> list[FolderEntry]:
        """List a folder, in the order of the filesystem."""
        target = self._resolve("read_dir", granted, path)
        with (
            _as_plugin_errors("read_dir", path, target.capability),
            _closing(target.open(os.O_RDONLY | os.O_DIRECTORY)) as folder,
        ):
            by_manifest.check(target.capability, folder)
            return list(_entries(folder))

    def read_file(
        self,
        granted: Collection[str],
        path: str,
        limit: int = LARGEST,
        by_manifest: ByManifest = NO_MANIFEST_GRANTS,
    ) -> bytes:
        """Read all of a regular file; one that is larger than `limit` is refused."""
        target = self._resolve("read", granted, path)
        with (
            _as_plugin_errors("read", path, target.capability),
            _closing(target.open(O_PATH)) as path_fd,
            _closing(_open_file(path_fd, target, limit, by_manifest)) as file,
        ):
            return _read_all(file, limit)

    def read_part(
        self,
        granted: Collection[str],
        path: str,
        offset: int,
        length: int,
        by_manifest: ByManifest = NO_MANIFEST_GRANTS,
    ) -> FileContent:
        """Read up to `length` bytes of a regular file of any size: fewer at its end, none behind it."""
        target = self._resolve("read", granted, path)
        with (
            _as_plugin_errors("read", path, target.capability),
            _closing(target.open(O_PATH)) as path_fd,
            _closing(_open_file(path_fd, target, None, by_manifest)) as file,
        ):
            data = os.pread(file, min(length, LARGEST), offset)
            return FileContent(data, offset, os.fstat(file).st_size)

    def _resolve(self, verb: str, granted: Collection[str], path: str) -> GrantedFolder:
        """The granted folder that a path is in, chosen by names alone; `open_beneath` enforces it."""
        _check_name(verb, path)
        if not path.startswith("/"):
            raise Denied("capability denied: fs")
        names = path.split("/")
        whole = _normalize(names)
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
    """A path below the folder of a granted capability."""

    capability: str
    folder: str
    below: str
    closed: list[str]
    """Folders inside that need another capability: no symlink may lead there."""

    def open(self, flags: int) -> int:
        # The folder is configured by the operator: it and its parents may be symlinks.
        with _closing(os.open(self.folder, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
            return open_beneath(folder, self.below, flags, closed=_identities(self.closed))


def _identities(folders: list[str]) -> Set[tuple[int, int]]:
    found = set()
    for folder in folders:
        try:
            info = os.stat(folder)
        except OSError:
            continue  # a folder that does not exist needs no protection
        found.add((info.st_dev, info.st_ino))
    return found


def _check_name(verb: str, path: str) -> None:
    if len(path) > MAX_PATH:
        raise _invalid(verb, bounded(path, 100), os.strerror(errno.ENAMETOOLONG))
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise _invalid(verb, path, "this is not a valid file name")


def _spellings(folder: str) -> list[list[str]]:
    """The names in a folder's path: as configured, and without symlinks."""
    return [_normalize(folder.split("/")), _normalize(os.path.realpath(folder).split("/"))]


def _normalize(names: list[str]) -> list[str]:
    """Names without `.` and `..`: good enough to choose a folder, never to open one."""
    normalized: list[str] = []
    for name in names:
        _append_name(normalized, name)
    return normalized


def _append_name(normalized: list[str], name: str) -> None:
    if name == "..":
        del normalized[-1:]
    elif name not in ("", "."):
        normalized.append(name)


def _below(names: list[str], above: list[str]) -> str:
    """The rest of a path below the folder, with every `..` still in it."""
    walked: list[str] = []
    at = 0
    while walked != above:
        _append_name(walked, names[at])
        at += 1
    return "./" + "/".join(names[at:])


def _open_file(path_fd: int, target: GrantedFolder, limit: int | None, by_manifest: ByManifest) -> int:
    """Open a regular file by its O_PATH descriptor. A device or FIFO is never opened: opening one can have
    effects."""
    info = os.fstat(path_fd)
    by_manifest.check(target.capability, path_fd)
    if stat.S_ISDIR(info.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if limit is not None and info.st_size > limit:
        raise _too_large(limit)
    if not O_PATH:
        return os.dup(path_fd)
    try:
        file = os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        file = target.open(os.O_RDONLY)  # without /proc: by its name, if it is still the same file
    if identity(file) != (info.st_dev, info.st_ino):
        os.close(file)
        raise OSError(errno.ESTALE, "it was replaced while it was being opened")
    return file


def _read_all(file: int, limit: int) -> bytes:
    """Read a file to its end: its size may change meanwhile, and some files report none."""
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
            if count >= MAX_ENTRIES:
                raise OSError(errno.EFBIG, f"more than {MAX_ENTRIES} entries")
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_dir = stat.S_ISDIR(info.st_mode)
            yield FolderEntry(_lossy(entry.name), is_dir, 0 if is_dir else info.st_size, info.st_mtime_ns)


@contextmanager
def _as_plugin_errors(verb: str, path: str, capability: str) -> Iterator[None]:
    """Turn errors into PluginErrors, whose messages go to the plugin."""
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
    """A name that can be encoded: bytes that are not UTF-8 become U+FFFD."""
    try:
        return os.fsencode(name).decode("utf-8", "replace")
    except UnicodeEncodeError:
        return name.encode("utf-8", "replace").decode()
