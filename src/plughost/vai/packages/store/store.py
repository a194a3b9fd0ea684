"""Store: installed packages, by the digest of their bytes.

    lock                              held while a release is added or removed
    staging/                          one folder for each installer, locked by it as long as it lives
    releases/HEX/                     a complete release: manifest.json, signature.json, package/
    versions/PUBLISHER/NAME/VERSION   which release that version is, forever

A release is assembled in staging, synced, and renamed to its place; then its version is recorded. An
installer that is killed in between leaves a folder without a record or a lock, and the next process that
opens the store removes it. The record of a version stays when its release is removed: a version never gets
other bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from plughost._util import fsync
from plughost._util.text import escape_controls
from plughost.errors import InvalidSpec
from plughost.vai.packages.archive.unpack import READ_ONLY
from plughost.vai.packages.errors import NotInstalled, VersionTaken
from plughost.vai.packages.oci.digests import hex_of
from plughost.vai.packages.release import Release
from plughost.vai.packages.store import records, staging
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.integrity import SIGNATURE, IntegrityCache


class Store:
    """A package store in a folder. Any number of processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / "staging"
        self._releases = root / "releases"
        self._versions = root / "versions"
        self.integrity = IntegrityCache()

    def open(self) -> Store:
        """Creates the store if it is missing, and removes what killed installers have left."""
        try:
            for above in reversed(self.root.parents[1:]):
                above.mkdir(mode=0o755, exist_ok=True)
            for folder in (self.root.parent, self.root, self._releases, self._versions):
                fsync.make_folder(folder)
            fsync.make_folder(self._staging, 0o700)
            self._refuse_foreign()
            with self._locked():
                staging.sweep(self._staging)
                self._remove_unrecorded()
        except OSError as error:
            where = f"{escape_controls(str(error.filename))}: " if error.filename else ""
            why = f"{where}{error.strerror or error}"
            raise InvalidSpec(f"the store {self.root} cannot be used: {why}") from error
        return self

    def staging(self) -> AbstractContextManager[Path]:
        """A temporary folder on the store's disk for one installer."""
        return staging.hold_staging(self._staging)

    def add(self, staged: Path, release: Release, *, trusted: bool) -> InstalledRelease:
        """Moves a release from staging into the store; VersionTaken if its version is another release.

        If it is installed already, a trusted signature replaces the one that it has.
        """
        installed = self._installed(release)
        damaged = installed.folder.exists() and self.damage(installed) is not None
        with self._locked():
            self.refuse_other(release)
            if damaged and installed.folder.exists():
                os.rename(installed.folder, staged.with_name("damaged"))
            new = not installed.folder.exists()
            try:
                if new:
                    fsync.sync(staged)
                    os.rename(staged, installed.folder)
                    fsync.sync(self._releases)
                elif trusted or installed.envelope is None:
                    self._replace_signature(staged, installed)
                self._record_version(release, staged.with_name("version"))
            except OSError:
                if new and installed.folder.exists():
                    os.rename(installed.folder, staged)  # back to staging, which is removed
                raise
        return installed

    def refuse_other(self, release: Release) -> None:
        """Raises VersionTaken when the version is recorded with other bytes."""
        known = records.read(self._versions, release) or release
        if known.digest != release.digest:
            raise VersionTaken(
                f"{release} was installed before with different contents: {known.digest}, not "
                f"{release.digest}",
                plugin=release.package_id,
                hint="a version never changes: publish a new one",
            )

    def installed(self) -> list[InstalledRelease]:
        """All installed releases, sorted by name and version."""
        found = [self._installed(release) for release in self._recorded_releases()]
        present = [entry for entry in found if entry.folder.exists()]
        return sorted(
            present, key=lambda entry: (entry.release.package_id, _version_key(entry.release.version))
        )

    def find(self, package_id: str, version: str = "") -> InstalledRelease:
        """The release of a package, by version where there are several; NotInstalled says what is
        installed."""
        present = [entry for entry in self.installed() if entry.release.package_id == package_id]
        found = [entry for entry in present if version in ("", entry.release.version)]
        if len(found) == 1:
            return found[0]
        versions = ", ".join(entry.release.version for entry in present)
        name = f"{package_id}@{version}" if version else package_id
        if found:
            raise NotInstalled(
                f"{name} is installed in several versions: {versions}", hint="name one: @VERSION"
            )
        hint = f"installed versions: {versions}" if versions else NotInstalled.remedy
        raise NotInstalled(f"{name} is not installed", hint=hint)

    def damage(self, installed: InstalledRelease) -> str | None:
        """The first difference of a release from what was installed; None when there is none. Blocking.

        An unchanged release is read only once, however often this is called.
        """
        return self.integrity.damage(installed.folder, installed.release.digest)

    def check(self, installed: InstalledRelease) -> None:
        """Raises Damaged when a release is not what was installed. Blocking."""
        if (damage := self.damage(installed)) is not None:
            raise installed.damaged(damage)

    def remove(self, installed: InstalledRelease, *, forget: bool = False) -> None:
        """Removes the files of a release; with `forget` also the record of its version."""
        record = self._record(installed.release)
        with self.staging() as folder, self._locked():
            if forget and record.exists():
                os.unlink(record)
                fsync.sync(record.parent)
            if installed.folder.exists():
                os.rename(installed.folder, folder / "removed")
                fsync.sync(self._releases)

    def _installed(self, release: Release) -> InstalledRelease:
        return InstalledRelease(release, self._releases / hex_of(release.digest))

    def _record(self, release: Release) -> Path:
        return records.path_of(self._versions, release)

    def _recorded_releases(self) -> Iterator[Release]:
        return records.read_all(self._versions)

    def _record_version(self, release: Release, temporary: Path) -> None:
        record = self._record(release)
        if record.exists():
            return
        for folder in (record.parent.parent, record.parent):
            fsync.make_folder(folder)
        fsync.write_new(temporary, msgspec.json.encode(release), READ_ONLY)
        os.rename(temporary, record)
        try:
            for folder in (record.parent, record.parent.parent, self._versions):
                fsync.sync(folder)
        except OSError:
            os.unlink(record)
            raise

    def _replace_signature(self, staged: Path, installed: InstalledRelease) -> None:
        if (staged / SIGNATURE).exists():
            os.replace(staged / SIGNATURE, installed.folder / SIGNATURE)
            fsync.sync(installed.folder)

    def _remove_unrecorded(self) -> None:
        named = {hex_of(release.digest) for release in self._recorded_releases()}
        for folder in self._releases.iterdir():
            if folder.name not in named:
                if not stat.S_ISDIR(os.lstat(folder).st_mode):
                    raise NotADirectoryError(
                        errno.ENOTDIR, "not an installed package; remove it", str(folder)
                    )
                shutil.rmtree(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _refuse_foreign(self) -> None:
        """Checks the top folders; releases and records are checked whenever they are read."""
        for folder in (self.root, self._staging, self._releases, self._versions):
            records.refuse_foreign(folder, os.lstat(folder), "folder")


def default_root() -> Path:
    """The default store: `/var/lib/plughost/packages` for root, else in XDG_DATA_HOME."""
    if os.geteuid() == 0 and not os.environ.get("XDG_DATA_HOME"):
        return Path("/var/lib/plughost/packages")
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return Path(home, "plughost", "packages")


def _version_key(version: str) -> tuple[list[int], bool, str]:
    numbers, _, early = version.partition("+")[0].partition("-")
    return [int(number) for number in numbers.split(".")], not early, early
