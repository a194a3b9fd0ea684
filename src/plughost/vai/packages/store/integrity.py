"""Integrity of an installed release: its files are those that were signed, no more and no fewer.

`examine` archives the files again and compares the digest with that of the release. `IntegrityCache` does so
once, and afterwards only looks whether a file or directory has changed since: device, inode, mode, owner,
size, mtime and ctime. The kernel sets the ctime at every change of content, mode, owner or directory entries,
and only root can set it back (by setting the clock). A shared memory mapping is the exception: of several
writes to one page only the first sets it, until the kernel has written the page to the disk. Only a program
of this user can map a file of the store so. The cache is in the memory of the host: a plugin and another
user can write neither to the store nor to the cache.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from plughost._util.text import escape_controls
from plughost.vai.packages.archive import canonical_tar
from plughost.vai.packages.archive.canonical_tar import ArchiveMember
from plughost.vai.packages.archive.legal_paths import from_disk
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, MAX_DOCUMENT_BYTES
from plughost.vai.packages.archive.unpack import DIRECTORY, PROGRAM, READ_ONLY
from plughost.vai.packages.errors import PackageRefused
from plughost.vai.packages.oci.content_store import Descriptor
from plughost.vai.packages.oci.digests import digest_of
from plughost.vai.packages.oci.errors import BadContent
from plughost.vai.packages.release import parts

MANIFEST = "manifest.json"
SIGNATURE = "signature.json"
PACKAGE = "package"

TIMESTAMP_MARGIN = 2_000_000_000
"""Nanoseconds. A file changed less than this before it was hashed may change again and keep its timestamps:
the kernel's clock ticks every few milliseconds, those of some file systems every two seconds."""
MAX_ENTRIES = DEFAULT_LIMITS.files * DEFAULT_LIMITS.depth
"""Files and directories in a release."""
MAX_CACHED = 64
"""Releases in a cache."""
_CHUNK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileState(NamedTuple):
    """Metadata of a file or directory that changes whenever it is modified."""

    device: int
    inode: int
    mode: int
    owner: int
    size: int
    mtime_ns: int
    ctime_ns: int


States = dict[str, FileState]
"""The states of a release's directory (``.``) and everything below it, by relative path."""


class Examined(msgspec.Struct, frozen=True):
    """The result of an examination."""

    damage: str | None
    """The first difference from what was installed; None when there is none."""
    states: States = {}
    """The states of the files before they were read."""


class _Damage(Exception):
    """The release is not what was installed."""


def examine(folder: Path, digest: str) -> Examined:
    """Reads and hashes all files of the release in `folder`; `digest` is that of its OCI manifest.
    Blocking."""
    try:
        root = os.open(folder, _OPEN_DIRECTORY)
    except OSError as error:
        return Examined(f"{folder}: {_reason(error)}")
    try:
        states = _states(root)
        _check_archive(root, states, _layer(root, states, digest))
    except _Damage as damage:
        return Examined(str(damage))
    except (BadContent, PackageRefused) as error:
        return Examined(f"{MANIFEST}: {error.message}")
    except OSError as error:
        return Examined(f"{escape_controls(str(error.filename or folder))}: {_reason(error)}")
    finally:
        os.close(root)
    return Examined(None, states)


class _Entry:
    """One release in a cache."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.states: States | None = None
        """The states when the release was found undamaged; None when it must be read again."""


class IntegrityCache:
    """Remembers examined releases, so that unchanged ones are not read again. Usable from any thread."""

    def __init__(self, now: Callable[[], int] | None = None) -> None:
        """`now` is the clock that the kernel takes timestamps from, in nanoseconds; another one for tests."""
        self._now = now or _kernel_time
        self._entries: dict[tuple[Path, str], _Entry] = {}
        self._lock = threading.Lock()
        self.reads = 0
        """How often the files of a release were read and hashed, not only checked for changes."""

    def damage(self, folder: Path, digest: str) -> str | None:
        """The first difference of a release from what was installed; None when there is none. Blocking."""
        entry = self._entry(folder, digest)
        with entry.lock:  # a second thread waits, and uses the result of the first
            if entry.states is not None and _unchanged(folder, entry.states):
                return None
            entry.states = None
            started = self._now()
            self.reads += 1
            examined = examine(folder, digest)
            if examined.damage is None and _settled(examined.states, started):
                entry.states = examined.states
            return examined.damage

    def _entry(self, folder: Path, digest: str) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault((folder, digest), _Entry())
            if len(self._entries) > MAX_CACHED:
                del self._entries[next(iter(self._entries))]
            return entry


def _kernel_time() -> int:
    clock = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
    return time.clock_gettime_ns(clock)


def _settled(states: States, started: int) -> bool:
    """Whether every later change must give a file other timestamps than these."""
    newest = max(max(state.mtime_ns, state.ctime_ns) for state in states.values())
    return newest < started - TIMESTAMP_MARGIN


def _unchanged(folder: Path, states: States) -> bool:
    try:
        root = os.open(folder, _OPEN_DIRECTORY)
    except OSError:
        return False
    try:
        for name, state in states.items():
            if _state(os.stat(name, dir_fd=root, follow_symlinks=False)) != state:
                return False
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _state(info: os.stat_result) -> FileState:
    return FileState(
        info.st_dev,
        info.st_ino,
        info.st_mode,
        info.st_uid,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
    )


def _states(root: int) -> States:
    """The states of everything in a release, which must have the owner, type and mode that an installation
    gives it."""
    states = {".": _state(os.fstat(root))}
    _check_state(".", states["."])
    for name in _walk(root, "", states, DEFAULT_LIMITS.depth + 1):
        _check_state(name, states[name])
        if len(states) > MAX_ENTRIES:
            raise _Damage(f"it has more than {MAX_ENTRIES} files and directories")
    top = {name for name in states if "/" not in name} - {".", SIGNATURE}
    if top != {MANIFEST, PACKAGE}:
        odd = min(top ^ {MANIFEST, PACKAGE})
        what = "missing" if odd in (MANIFEST, PACKAGE) else "not part of a release"
        raise _Damage(f"{escape_controls(odd)} is {what}")
    signature = states.get(SIGNATURE)
    if signature is not None and not (stat.S_ISREG(signature.mode) and signature.size <= MAX_DOCUMENT_BYTES):
        raise _Damage(f"{SIGNATURE} is not a file of at most {MAX_DOCUMENT_BYTES} bytes")
    return states


def _walk(folder: int, below: str, states: States, depth: int) -> Iterator[str]:
    """Adds the entries of a directory to `states`, yields their names, and descends."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            states[name] = state = _state(entry.stat(follow_symlinks=False))
            yield name
            if not stat.S_ISDIR(state.mode):
                continue
            if depth <= 0:
                raise _Damage(f"{escape_controls(name)} is too many directories deep")
            inside = os.open(entry.name, _OPEN_DIRECTORY, dir_fd=folder)
            try:
                if _state(os.fstat(inside)) != state:
                    raise _Damage(f"{escape_controls(name)} changed while it was read")
                yield from _walk(inside, f"{name}/", states, depth - 1)
            finally:
                os.close(inside)


def _check_state(name: str, state: FileState) -> None:
    mode, owner = stat.S_IMODE(state.mode), os.geteuid()
    if stat.S_ISDIR(state.mode):
        allowed: tuple[int, ...] = (DIRECTORY,)
    elif stat.S_ISREG(state.mode):
        allowed = (READ_ONLY, PROGRAM)
    else:
        what = "a symlink" if stat.S_ISLNK(state.mode) else "neither a file nor a directory"
        raise _Damage(f"{escape_controls(name)} is {what}")
    if state.owner != owner:
        raise _Damage(f"{escape_controls(name)} belongs to user {state.owner}, not to user {owner}")
    if mode not in allowed:
        expected = " or ".join(f"{each:04o}" for each in allowed)
        raise _Damage(f"{escape_controls(name)} has mode {mode:04o}, not {expected}")


def _layer(root: int, states: States, digest: str) -> Descriptor:
    """The descriptor of the archive that the release was unpacked from."""
    body = (
        b"".join(_content(root, MANIFEST, states[MANIFEST]))
        if states[MANIFEST].size <= MAX_DOCUMENT_BYTES
        else b""
    )
    if digest_of(body) != digest:
        raise _Damage(f"{MANIFEST} was changed after the installation")
    return parts(body)[1]


def _check_archive(root: int, states: States, layer: Descriptor) -> None:
    """Archives the files again: the bytes must be the same. Reads no more bytes than the archive has."""
    try:
        members = _members(states)
        headers = [canonical_tar.header(member) for member, _ in members]
    except UnicodeEncodeError:
        raise _Damage("a file's name is not UTF-8") from None
    size = sum(map(len, headers)) + len(canonical_tar.END)
    size += sum(member.size + -member.size % canonical_tar.BLOCK for member, _ in members)
    differs = "its files do not match the signed digest"
    if size != layer.size:
        raise _Damage(differs)
    found = hashlib.sha256()
    before = b""
    for (member, name), header in zip(members, headers, strict=True):
        before += header
        for piece in _content(root, name, states[name]):
            found.update(before + piece)  # one call per file, as most files are small
            before = b""
        before += canonical_tar.padding(member.size)
    found.update(before + canonical_tar.END)
    if f"sha256:{found.hexdigest()}" != layer.digest:
        raise _Damage(differs)


def _members(states: States) -> list[tuple[ArchiveMember, str]]:
    """The package's files in the order of the archive, with their paths; _Damage for an empty directory."""
    top = f"{PACKAGE}/"
    members, directories, needed = [], [], {PACKAGE}
    for name, state in states.items():
        if not name.startswith(top):
            continue
        if stat.S_ISDIR(state.mode):
            directories.append(name)
            continue
        path = from_disk(name[len(top) :])
        members.append((ArchiveMember(path, stat.S_IMODE(state.mode) == PROGRAM, state.size), name))
        while (name := name.rpartition("/")[0]) not in needed:
            needed.add(name)
    for name in directories:
        if name not in needed:
            raise _Damage(f"{escape_controls(name)} is an empty directory, which cannot come from a package")
    return sorted(members, key=lambda pair: pair[0].name.encode())


def _content(root: int, name: str, state: FileState) -> Iterator[bytes]:
    """The bytes of a file, which must still be the one whose state was taken."""
    fd = os.open(name, _OPEN, dir_fd=root)
    try:
        if _state(os.fstat(fd)) != state:
            raise _Damage(f"{escape_controls(name)} changed while it was read")
        left = state.size
        while left and (piece := os.read(fd, min(left, _CHUNK))):
            left -= len(piece)
            yield piece
        if left:
            raise _Damage(f"{escape_controls(name)} changed while it was read")
    finally:
        os.close(fd)


def _reason(error: OSError) -> str:
    return "a symlink" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror or str(error)
