"""Finds shared libraries as the dynamic loader does: in its cache (ld.so.cache), its default directories, and
a program's own prefix."""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.elf import Elf, open_file, read_elf
from plughost.sandbox.resolve.trusted_files import is_beneath

CACHE = "/etc/ld.so.cache"
MOST_LIBRARIES = 256
MOST_READS = 2000
MOST_CACHE = 4 << 20

STANDING = ("libgcc_s.so.1", "libstdc++.so.6", "libm.so.6", "libz.so.1", "libgomp.so.1", "libresolv.so.2",
            "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libatomic.so.1")  # fmt: skip
"""Libraries that extension modules load later although the program's headers do not name them: those that
every prebuilt Python wheel and Node addon may expect."""

_TRIPLETS = {
    62: "x86_64-linux-gnu", 183: "aarch64-linux-gnu", 243: "riscv64-linux-gnu", 40: "arm-linux-gnueabihf",
    3: "i386-linux-gnu", 21: "powerpc64le-linux-gnu", 22: "s390x-linux-gnu",
}  # fmt: skip
_MAGIC = b"glibc-ld.so.cache1.1"


def triplet(elf: Elf) -> str:
    """The name of its machine in library directories of Debian and its derivatives."""
    return _TRIPLETS.get(elf.kind[0], "")


class LoadedProgram(NamedTuple):
    """A program or library that is loaded, and where its own search path may lead."""

    path: str
    elf: Elf
    prefixes: tuple[str, ...] = ()
    """Its RUNPATH counts only for directories below these."""


def closure(programs: Iterable[LoadedProgram]) -> list[LoadedProgram]:
    """Every library that these programs need, directly or through another library.

    A name with a slash, and a search directory outside the program's prefixes, are ignored: both are the
    program's own word.
    """
    found: dict[str, LoadedProgram] = {}
    waiting = list(programs)
    asked: set[tuple[str, tuple[str, ...]]] = set()
    read_cached = _ElfReader()
    while waiting:
        program = waiting.pop()
        folders = tuple(dict.fromkeys(_search_dirs(program)))
        for name in program.elf.needed:
            if "/" in name or (name, folders) in asked:
                continue
            asked.add((name, folders))
            for path, elf in _candidates(name, program.elf, folders, read_cached):
                if path in found:
                    continue
                if len(found) >= MOST_LIBRARIES:
                    return list(found.values())
                found[path] = LoadedProgram(path, elf, program.prefixes)
                waiting.append(found[path])
    return list(found.values())


class _ElfReader:
    """Reads ELF files, each once, and a bounded number of them: the author of the program decides how many
    are searched."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, tuple[int, int]], Elf | None] = {}

    def __call__(self, path: str, kind: tuple[int, int]) -> Elf | None:
        if (path, kind) not in self._seen:
            if len(self._seen) >= MOST_READS:
                raise SandboxUnavailable(
                    f"some of its libraries were not found within the first {MOST_READS} places searched",
                    hint="build it with fewer libraries, or fewer folders to search for them",
                )
            self._seen[path, kind] = read_elf(path, kind)
        return self._seen[path, kind]


def _search_dirs(program: LoadedProgram) -> Iterable[str]:
    origin = os.path.dirname(program.path)
    for folder in program.elf.search:
        full = os.path.normpath(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))
        if full.startswith("/") and any(is_beneath(full, prefix) for prefix in program.prefixes):
            yield full


def _candidates(
    name: str, wanted: Elf, folders: Iterable[str], read_cached: _ElfReader
) -> list[tuple[str, Elf]]:
    """The files that the loader may choose for a name: it skips files of another kind."""
    arch = triplet(wanted)
    usual = [f"/lib/{arch}", f"/usr/lib/{arch}"] if arch else []
    usual += ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"]

    def of(paths: Iterable[str]) -> Iterator[tuple[str, Elf]]:
        return ((path, elf) for path in paths if (elf := read_cached(path, wanted.kind)) is not None)

    return (
        list(of(f"{folder}/{name}" for folder in folders))
        or list(of(cached().get(name, ())))
        or list(islice(of(f"{folder}/{name}" for folder in usual), 1))
    )


def cached() -> dict[str, list[str]]:
    """The loader's cache: paths by library name."""
    try:
        info = os.stat(CACHE)
    except OSError:
        return {}
    return _cached((info.st_ino, info.st_mtime_ns, info.st_size))


@functools.lru_cache(maxsize=1)
def _cached(stamp: tuple[int, int, int]) -> dict[str, list[str]]:
    data = cache_bytes()
    start = data.find(_MAGIC)
    libraries: dict[str, list[str]] = {}
    if start < 0 or len(data) < start + 48:
        return libraries
    data = data[start:]
    (count,) = struct.unpack_from("=I", data, 20)
    count = min(count, (len(data) - 48) // 24)
    for _, key, value, _, _ in struct.iter_unpack("=iIIIQ", data[48 : 48 + 24 * count]):
        name = os.fsdecode(data[key : data.find(b"\0", key)])
        libraries.setdefault(name, []).append(os.fsdecode(data[value : data.find(b"\0", value)]))
    return libraries


def cache_bytes() -> bytes:
    """The contents of the loader's cache; empty where there is none."""
    fd = open_file(CACHE)
    if fd is None:
        return b""
    try:
        return os.pread(fd, MOST_CACHE, 0)
    finally:
        os.close(fd)
