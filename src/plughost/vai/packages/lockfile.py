"""The lock file plughost-packages.lock: pins packages to their digests and to the keys that signed them."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path

import msgspec

from plughost._util.located.toml import load_toml
from plughost.errors import InvalidSpec
from plughost.vai.packages.errors import Unpinned
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.release import Release
from plughost.vai.packages.trust.signature import SignatureVerdict

FILE = "plughost-packages.lock"
_HEADER = "# Written by `plughost install --save`. `plughost install --locked` installs only these.\n"
_KEY = re.compile(r"(?:[0-9a-f]{64})?")


class LockedPackage(msgspec.Struct, frozen=True):
    """One pinned package: version, digest and key."""

    package_id: str
    version: str
    digest: str
    key: str = ""
    """The id of the publisher's key; empty for a package without a trusted signature."""


class Lockfile(msgspec.Struct, frozen=True):
    """The content of a lock file."""

    package: list[LockedPackage] = []

    def key_of(self, release: Release) -> str:
        """The id of the key that must have signed a release; empty when none is pinned."""
        return next((pin.key for pin in self.package if pin.digest == release.digest), "")

    def check(self, release: Release, verdict: SignatureVerdict) -> None:
        """Raises Unpinned unless exactly this release, signed by exactly this key, is pinned."""
        named = [pin for pin in self.package if pin.package_id == release.package_id]
        versions = [pin for pin in named if pin.version == release.version]
        hint = "`plughost install --save` pins this release"
        if not versions:
            pinned = ", ".join(pin.version for pin in named) or "none"
            raise Unpinned(f"{release} is not in the lock file; pinned versions: {pinned}", hint=hint)
        (pin,) = versions
        if pin.digest != release.digest:
            raise Unpinned(
                f"the lock file pins {release} with digest {pin.digest}, but this package is {release.digest}"
            )
        if pin.key != _key_of(verdict):
            raise Unpinned(
                f"{release} is pinned with the key {pin.key or 'none'}, but is signed by "
                f"{_key_of(verdict) or 'none'}",
                hint=hint,
            )

    def with_release(self, release: Release, verdict: SignatureVerdict) -> Lockfile:
        """A copy with this release, in place of any other version of its package."""
        kept = [pin for pin in self.package if pin.package_id != release.package_id]
        new = LockedPackage(release.package_id, release.version, release.digest, _key_of(verdict))
        return Lockfile(sorted([*kept, new], key=lambda pin: pin.package_id))


def read(path: Path) -> Lockfile:
    """Reads and validates a lock file."""
    document = load_toml(path)
    pins = document.read(Lockfile, (), document.data)
    seen: set[tuple[str, str]] = set()
    for number, pin in enumerate(pins.package if pins else ()):
        if not is_digest(pin.digest):
            document.problem(("package", number, "digest"), "expected sha256: and 64 hexadecimal digits")
        if not _KEY.fullmatch(pin.key):
            document.problem(("package", number, "key"), "expected 64 hexadecimal digits, or nothing")
        if (pin.package_id, pin.version) in seen:
            document.problem(("package", number), f"{pin.package_id}@{pin.version} is listed twice")
        seen.add((pin.package_id, pin.version))
    document.check()
    assert pins is not None
    return pins


def check_writable(path: Path) -> None:
    """Raises when the lock file could not be written. Called before something is installed that is to be
    pinned."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be written: {error.strerror}") from error


def save(path: Path, release: Release, verdict: SignatureVerdict) -> None:
    """Adds a release to a lock file. A lock makes concurrent writers wait, so that no pin is lost."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        before = read(path) if path.exists() else Lockfile()
        write(path, before.with_release(release, verdict))
    finally:
        os.close(folder)


def write(path: Path, pins: Lockfile) -> None:
    """Writes a lock file atomically."""
    text = _HEADER + "".join(map(_table, pins.package))
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            try:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be written: {error.strerror}") from error


def _table(pin: LockedPackage) -> str:
    """One entry in TOML; its values contain nothing that would have to be escaped."""
    rows = [f'{name} = "{value}"\n' for name, value in msgspec.structs.asdict(pin).items()]
    return "".join(["\n[[package]]\n", *rows])


def _key_of(verdict: SignatureVerdict) -> str:
    return verdict.key_id if verdict.posture == "trusted" else ""
