"""Reads from an ELF file which dynamic loader and which shared libraries it needs.

Only headers are read, in a bounded number of small reads: the file may be hostile, and of any size.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator

import msgspec

MOST_HEADERS = 128
MOST_DYNAMIC = 64 << 10
MOST_NAMES = 256
LONGEST = 4096

_SHAPES = {
    (3, 1, 1), (6, 1, 1), (40, 1, 1), (62, 2, 1), (183, 2, 1), (243, 2, 1), (258, 2, 1),
    (21, 2, 1), (21, 2, 2), (22, 2, 2),
}  # fmt: skip
"""Machine, word size, byte order. The kernel decides by the machine alone: a file that claims another
combination would have two sets of headers, one for the kernel and one for us."""
_PURPOSES = (2, 3)
"""ET_EXEC and ET_DYN: programs and libraries. A core dump is an ELF file, too, and is not accepted."""
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_END, _NEEDED, _STRTAB, _STRSZ, _RPATH, _RUNPATH = 0, 1, 5, 10, 15, 29


class Elf(msgspec.Struct, frozen=True):
    """The headers of an ELF file that decide what else is needed to run it."""

    kind: tuple[int, int]
    """Machine and word size: a library of another kind does not fit."""
    loader: str | None = None
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    """RUNPATH or RPATH: directories to search for libraries first, as written in the file."""


def read_elf(path: str, kind: tuple[int, int] | None = None) -> Elf | None:
    """Parse a file; None when it is not an ELF file, is malformed, or is not of the wanted kind."""
    fd = open_file(path)
    if fd is None:
        return None
    try:
        return _parse(fd, kind)
    except (struct.error, UnicodeDecodeError, OverflowError, OSError):
        return None
    finally:
        os.close(fd)


def open_file(path: str) -> int | None:
    """Open a regular file for reading, without ever blocking on a FIFO; None when it is not a regular
    file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None  # opening a device can have side effects
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _parse(fd: int, wanted: tuple[int, int] | None) -> Elf | None:
    head = os.pread(fd, 64, 0)
    if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] not in (1, 2):
        return None
    wide = head[4] == 2
    order = "<" if head[5] == 1 else ">"
    purpose, machine = struct.unpack_from(order + "HH", head, 16)
    if purpose not in _PURPOSES or (machine, head[4], head[5]) not in _SHAPES:
        return None
    kind = (machine, head[4])
    if wanted not in (None, kind):
        return None
    (offset,) = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    layout = struct.Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
    if size != layout.size or count > MOST_HEADERS:
        return None
    headers = [_header(fields, wide) for fields in layout.iter_unpack(os.pread(fd, size * count, offset))]
    loader = None
    interp = next(
        (header for header in headers if header[0] == _INTERP), None
    )  # the kernel takes the first, too
    if interp is not None:
        if not 1 < interp[3] <= LONGEST:
            return None
        loader = os.fsdecode(os.pread(fd, interp[3], interp[1]).split(b"\0")[0])
    dynamic = next((header for header in headers if header[0] == _DYNAMIC), None)
    if dynamic is None:
        return Elf(kind, loader)
    word = struct.Struct(order + ("qQ" if wide else "iI"))
    table = os.pread(fd, min(dynamic[3], MOST_DYNAMIC), dynamic[1])
    entries = list(_entries(word, table[: len(table) // word.size * word.size]))
    facts = dict(entries)
    names = _at(headers, facts.get(_STRTAB, 0))
    if names is None:
        return Elf(kind, loader)
    limit = names + facts.get(_STRSZ, 0)
    needed = [value for tag, value in entries if tag == _NEEDED][:MOST_NAMES]
    search = facts.get(_RUNPATH, facts.get(_RPATH))
    return Elf(
        kind,
        loader,
        tuple(name for value in needed if (name := _name(fd, names + value, limit))),
        tuple(filter(None, _name(fd, names + search, limit).split(":")))[:MOST_NAMES] if search else (),
    )


def _header(fields: tuple[int, ...], wide: bool) -> tuple[int, int, int, int]:
    """Type, offset in the file, address in memory, length in the file."""
    return (fields[0], fields[2], fields[3], fields[5]) if wide else (*fields[:3], fields[4])  # type: ignore[return-value]


def _entries(word: struct.Struct, table: bytes) -> Iterator[tuple[int, int]]:
    for tag, value in word.iter_unpack(table):
        if tag == _END:
            return
        yield tag, value


def _at(headers: list[tuple[int, int, int, int]], address: int) -> int | None:
    """The file offset of a memory address."""
    for what, offset, start, length in headers:
        if what == _LOAD and start <= address < start + length:
            return address - start + offset
    return None


def _name(fd: int, offset: int, limit: int) -> str:
    return os.fsdecode(os.pread(fd, max(0, min(LONGEST, limit - offset)), offset).split(b"\0")[0])
