"""Canonical tar: the only form of a package's archive, so that equal content gives equal bytes.

Sorted names, no entries for folders, no owner, no time, mode 0644 or 0755, and a pax header only for a name
that the ustar header cannot hold. Reading accepts nothing else: each header is written again and compared. So
whatever else a tar can contain (links, devices, duplicate names, contradicting sizes) is refused without
having to be understood.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from plughost.vai.packages.archive.legal_paths import Listing
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits
from plughost.vai.packages.errors import Unacceptable

BLOCK = 512
END = bytes(2 * BLOCK)
_LONGEST_RECORD = 1024
_MAGIC = b"ustar\x0000"


class ArchiveMember(msgspec.Struct, frozen=True):
    """One file of a package: name, size, and whether it is executable."""

    name: str
    executable: bool
    size: int


def header(member: ArchiveMember) -> bytes:
    """The tar header of a file."""
    mode = 0o755 if member.executable else 0o644
    path = member.name.encode()
    if (split := _split_name(path)) is not None:
        return _block(*split, mode, member.size, b"0")
    record = _pax_record(path)
    return (
        _block(b"././@PaxHeader", b"", 0o644, len(record), b"x")
        + record
        + padding(len(record))
        + _block(hashlib.sha256(path).hexdigest().encode(), b"", mode, member.size, b"0")
    )


def padding(size: int) -> bytes:
    """The zeros after the content of a file."""
    return bytes(-size % BLOCK)


def members(archive: BinaryIO, limits: PackageLimits = DEFAULT_LIMITS) -> Iterator[ArchiveMember]:
    """The files of an archive; at each step `archive` is positioned at the first byte of that file.

    How much of the file the caller reads makes no difference.
    """
    listing = Listing(limits)
    while (first := _read_exactly(archive, BLOCK)) != END[:BLOCK]:
        member = _read_member(archive, first)
        try:
            listing.add(member.name)
        except ValueError as error:
            raise Unacceptable(f"{member.name!r}: {error}") from error
        if member.size > limits.file_bytes:
            raise Unacceptable(f"{member.name!r} is larger than {limits.file_bytes} bytes")
        start = archive.tell()
        if start + member.size > limits.total_bytes:
            raise Unacceptable(f"the archive is larger than {limits.total_bytes} bytes")
        yield member
        archive.seek(start + member.size)
        if _read_exactly(archive, -member.size % BLOCK).strip(b"\0"):
            raise Unacceptable(f"there are hidden bytes after {member.name!r}")
    if archive.read(BLOCK + 1) != END[BLOCK:]:
        raise Unacceptable("there is data after the last file of the archive")


def _read_member(archive: BinaryIO, first: bytes) -> ArchiveMember:
    """Reads the next header, which must be exactly as `header` writes it."""
    whole, name = first, _join_name(first)
    if first[156:157] == b"x":
        size = _parse_octal(first[124:136])
        if size > _LONGEST_RECORD:
            raise Unacceptable("the archive has a long pax header")
        record = _read_exactly(archive, size)
        name = record.partition(b" path=")[2][:-1]
        first = _read_exactly(archive, -size % BLOCK + BLOCK)
        whole += record + first
        first = first[-BLOCK:]
    try:
        member = ArchiveMember(name.decode(), first[100:108] == b"0000755\0", _parse_octal(first[124:136]))
    except UnicodeDecodeError:
        raise Unacceptable("the archive has a name that is not UTF-8") from None
    if header(member) != whole:
        raise Unacceptable(f"the archive has a header for {member.name!r} that is not allowed in a package")
    return member


def _split_name(path: bytes) -> tuple[bytes, bytes] | None:
    """Name and prefix for the ustar header; None when they cannot hold the path."""
    if not path.isascii():
        return None
    if len(path) <= 100:
        return path, b""
    cut = path.find(b"/", len(path) - 101)
    if cut < 0 or cut > 155 or cut == len(path) - 1:
        return None
    return path[cut + 1 :], path[:cut]


def _join_name(block: bytes) -> bytes:
    name, prefix = block[:100].rstrip(b"\0"), block[345:500].rstrip(b"\0")
    return prefix + b"/" + name if prefix else name


def _pax_record(path: bytes) -> bytes:
    """A pax record, whose length includes its own digits."""
    body = b" path=" + path + b"\n"
    size = len(body) + len(str(len(body)))
    if len(str(size)) + len(body) != size:
        size += 1
    return str(size).encode() + body


def _block(name: bytes, prefix: bytes, mode: int, size: int, kind: bytes) -> bytes:
    numbers = (
        b"%07o\0" % mode
        + b"0000000\0" * 2  # user, group
        + b"%011o\0" % size
        + b"%011o\0" % 0  # time
    )
    checksum = sum(name + numbers + kind + _MAGIC + prefix) + 8 * ord(" ")  # the rest is zeros
    return (
        name.ljust(100, b"\0")
        + numbers
        + b"%06o\0 " % checksum
        + kind
        + bytes(100)  # link
        + _MAGIC
        + bytes(64)  # names of user and group
        + bytes(16)  # device
        + prefix.ljust(155, b"\0")
        + bytes(12)
    )


def _parse_octal(field: bytes) -> int:
    try:
        return int(field[:-1], 8) if field[:-1].isdigit() else 0
    except ValueError:
        return 0  # then the header differs from the one that `header` writes, and is refused


def _read_exactly(archive: BinaryIO, size: int) -> bytes:
    data = archive.read(size)
    if len(data) != size:
        raise Unacceptable("the archive is cut short")
    return data
