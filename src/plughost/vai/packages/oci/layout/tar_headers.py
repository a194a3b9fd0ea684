"""Headers of a plain tar file, read and written: regular files only, and nothing ambiguous."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from plughost.vai.packages.oci.errors import BadContent

BLOCK = 512
MAX_MEMBERS = 10_000

_REGULAR = (b"0", b"\0")
_FOLDER = b"5"
_EXTENDED = (b"x", b"g")
_RENAMING = (b" path=", b" size=", b" GNU.sparse")
_MAX_EXTENDED = 64 << 10


class TarHeader(msgspec.Struct, frozen=True):
    """The name, position and size of a file in a tar."""

    name: str
    start: int
    size: int


def read_members(opened: BinaryIO, where: object) -> Iterator[TarHeader]:
    """The regular files of a tar. BadContent for links, devices and other entries that no layout has."""
    end = opened.seek(0, 2)
    at = 0
    for _ in range(MAX_MEMBERS):
        opened.seek(at)
        head = opened.read(BLOCK)
        if not head.strip(b"\0"):
            return
        try:
            name, size = _name(head), _octal(head[124:136])
        except ValueError:
            raise BadContent(f"{where}: no tar header at byte {at}") from None
        start, kind = at + BLOCK, head[156:157]
        at = start + -(-size // BLOCK) * BLOCK
        if start + size > end:
            raise BadContent(f"{where}: cut off within {name[:100]!a}")
        if kind in _EXTENDED:
            _refuse_renaming(opened.read(min(size, _MAX_EXTENDED)), size, where)
        elif kind in _REGULAR:
            yield TarHeader(name, start, size)
        elif kind != _FOLDER:
            raise BadContent(f"{where}: {name[:100]!a} is neither a file nor a folder")
    raise BadContent(f"{where}: more than {MAX_MEMBERS} files")


def header(name: str, size: int) -> bytes:
    """A reproducible tar header: the same bytes for the same file."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info.tobuf(tarfile.USTAR_FORMAT)


def padding(size: int) -> bytes:
    """The zeros after the content of a file."""
    return bytes(-size % BLOCK)


def _name(head: bytes) -> str:
    if len(head) != BLOCK or _octal(head[148:156]) != sum(head) - sum(head[148:156]) + 8 * 0x20:
        raise ValueError
    name = head[:100].split(b"\0")[0].decode("ascii")
    prefix = head[345:500].split(b"\0")[0].decode("ascii") if head[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits.isdigit():
        raise ValueError
    return int(digits, 8)


def _refuse_renaming(records: bytes, size: int, where: object) -> None:
    """Raises for an extended header that changes the name or size of a file; times and owners are allowed."""
    if size > _MAX_EXTENDED or any(word in records for word in _RENAMING):
        raise BadContent(f"{where}: extended tar headers for names or sizes are not accepted")
