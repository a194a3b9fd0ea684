"""The archive of a package as a file: written from a folder, and read without unpacking it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from plughost._util.fsync import Readable
from plughost.vai.packages.archive import canonical_tar
from plughost.vai.packages.archive.canonical_tar import ArchiveMember
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits
from plughost.vai.packages.archive.source_tree import SourceTree


class MemberReader:
    """Reads the bytes of one file in an archive."""

    def __init__(self, fd: int, start: int, size: int) -> None:
        self._fd = fd
        self._position = start
        self._end = start + size

    def read(self, size: int) -> bytes:
        data = os.pread(self._fd, min(size, self._end - self._position), self._position)
        self._position += len(data)
        return data


class ArchiveFile:
    """A canonical archive, open for reading; Unacceptable when it is not canonical."""

    def __init__(self, path: Path, limits: PackageLimits = DEFAULT_LIMITS) -> None:
        self._file = path.open("rb")
        try:
            self._starts = {member: self._file.tell() for member in canonical_tar.members(self._file, limits)}
        except BaseException:
            self._file.close()
            raise
        self.members = {member.name: member for member in self._starts}

    def open(self, member: ArchiveMember) -> MemberReader:
        """A reader for one file of the archive."""
        return MemberReader(self._file.fileno(), self._starts[member], member.size)

    def read(self, member: ArchiveMember) -> bytes:
        """The content of one file of the archive."""
        return self.open(member).read(member.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class HashingWriter:
    """A writer that counts and hashes (SHA-256) what is written, and passes it on to `below`, if there is
    one."""

    def __init__(self, inner: BinaryIO | None = None) -> None:
        self._inner = inner
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        if self._inner is not None:
            self._inner.write(data)
        self._hash.update(data)
        self.size += len(data)
        return len(data)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def hash_file(file: Readable) -> HashingWriter:
    """The size and digest of a file."""
    out = HashingWriter()
    while piece := file.read(1 << 20):
        out.write(piece)
    return out


def write(folder: SourceTree, out: HashingWriter) -> None:
    """Writes the files of a folder as an archive."""
    for member in folder.members:
        start = out.size
        head = canonical_tar.header(member)
        out.write(head)
        with folder.open(member) as file:
            shutil.copyfileobj(file, out, 1 << 20)
        if out.size != start + len(head) + member.size:
            raise OSError(f"{folder.path / member.name} changed while it was packed")
        out.write(canonical_tar.padding(member.size))
    out.write(canonical_tar.END)
