"""Installed packages, by the digest of their bytes.

    lock                              held while something is put in its place or taken away
    staging/                          one folder for each installer, held by it as long as it lives
    releases/HEX/                     a release whole: manifest.json, signature.json, package/
    versions/PUBLISHER/NAME/VERSION   which release that version is, once and for all

A release is put together in staging, synced, and renamed to its place; then its version is written down.
Whoever is killed in between leaves a folder that nobody names or holds, and the next to open the store
removes it. A version stays written down when its release is removed: it never gets other bytes.
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

from plughost.base.errors import InvalidSpec
from plughost.base.text import visible
from plughost.packages import disk, records, staging
from plughost.packages.errors import NotInstalled, VersionTaken
from plughost.packages.installed import Installed
from plughost.packages.integrity import SIGNATURE, IntegrityCache
from plughost.packages.oci.digests import hex_of
from plughost.packages.release import Release
from plughost.packages.unpacking import READ_ONLY


class Store:
    """Opened by any number of processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / "staging"
        self._releases = root / "releases"
        self._versions = root / "versions"
        self.integrity = IntegrityCache()

    def open(self) -> Store:
        """Made if it is not there, and rid of what killed installers have left."""
        try:
            for above in reversed(self.root.parents[1:]):
                above.mkdir(mode=0o755, exist_ok=True)
            for folder in (self.root.parent, self.root, self._releases, self._versions):
                disk.make_folder(folder)
            disk.make_folder(self._staging, 0o700)
            self._refuse_foreign()
            with self._locked():
                staging.sweep(self._staging)
                self._sweep_unnamed()
        except OSError as error:
            where = f"{visible(str(error.filename))}: " if error.filename else ""
            why = f"{where}{error.strerror or error}"
            raise InvalidSpec(f"the store {self.root} cannot be used: {why}") from error
        return self

    def staging(self) -> AbstractContextManager[Path]:
        """A folder on the store's disk for one installer, gone afterwards."""
        return staging.held(self._staging)

    def add(self, staged: Path, release: Release, *, trusted: bool) -> Installed:
        """A release out of staging put in its place; VersionTaken if its version is another release.

        If it is there already, a trusted signature takes the place of the one that it has.
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
                    disk.sync(staged)
                    os.rename(staged, installed.folder)
                    disk.sync(self._releases)
                elif trusted or installed.envelope is None:
                    self._take_signature(staged, installed)
                self._write_down(release, staged.with_name("version"))
            except OSError:
                if new and installed.folder.exists():
                    os.rename(installed.folder, staged)  # to where it is removed
                raise
        return installed

    def refuse_other(self, release: Release) -> None:
        """VersionTaken when the version is written down with other bytes."""
        known = records.read(self._versions, release) or release
        if known.digest != release.digest:
            raise VersionTaken(
                f"{release} is published with other bytes: {known.digest}, not {release.digest}",
                plugin=release.package_id,
                hint="a version never changes: publish a new one",
            )

    def installed(self) -> list[Installed]:
        """In the order of their names and versions."""
        found = [self._installed(release) for release in self._written_down()]
        there = [one for one in found if one.folder.exists()]
        return sorted(there, key=lambda one: (one.release.package_id, _ordered(one.release.version)))

    def find(self, package_id: str, version: str = "") -> Installed:
        """By its name, and its version where there are several; NotInstalled tells what is there."""
        there = [one for one in self.installed() if one.release.package_id == package_id]
        found = [one for one in there if version in ("", one.release.version)]
        if len(found) == 1:
            return found[0]
        versions = ", ".join(one.release.version for one in there)
        name = f"{package_id}@{version}" if version else package_id
        if found:
            raise NotInstalled(f"{name} is there in several versions: {versions}", hint="name one: @VERSION")
        hint = f"installed versions: {versions}" if versions else "plughost packages ls lists what is"
        raise NotInstalled(f"{name} is not installed", hint=hint)

    def damage(self, installed: Installed) -> str | None:
        """The first difference of a release from what was installed; None when there is none. Blocking.

        An unchanged release is read only once, however often this is asked.
        """
        return self.integrity.damage(installed.folder, installed.release.digest)

    def check(self, installed: Installed) -> None:
        """Damaged when a release is not what was installed. Blocking."""
        if (damage := self.damage(installed)) is not None:
            raise installed.damaged(damage)

    def remove(self, installed: Installed, *, forget: bool = False) -> None:
        """Its files; with `forget` also that its version is taken."""
        record = self._record(installed.release)
        with self.staging() as folder, self._locked():
            if forget and record.exists():
                os.unlink(record)
                disk.sync(record.parent)
            if installed.folder.exists():
                os.rename(installed.folder, folder / "removed")
                disk.sync(self._releases)

    def _installed(self, release: Release) -> Installed:
        return Installed(release, self._releases / hex_of(release.digest))

    def _record(self, release: Release) -> Path:
        return records.path_of(self._versions, release)

    def _written_down(self) -> Iterator[Release]:
        return records.read_all(self._versions)

    def _write_down(self, release: Release, beside: Path) -> None:
        record = self._record(release)
        if record.exists():
            return
        for folder in (record.parent.parent, record.parent):
            disk.make_folder(folder)
        disk.write_new(beside, msgspec.json.encode(release), READ_ONLY)
        os.rename(beside, record)
        try:
            for folder in (record.parent, record.parent.parent, self._versions):
                disk.sync(folder)
        except OSError:
            os.unlink(record)
            raise

    def _take_signature(self, staged: Path, installed: Installed) -> None:
        if (staged / SIGNATURE).exists():
            os.replace(staged / SIGNATURE, installed.folder / SIGNATURE)
            disk.sync(installed.folder)

    def _sweep_unnamed(self) -> None:
        named = {hex_of(release.digest) for release in self._written_down()}
        for folder in self._releases.iterdir():
            if folder.name not in named:
                if not stat.S_ISDIR(os.lstat(folder).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, "not a release; remove it", str(folder))
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
        """Of what lies in these, releases and records are checked whenever they are read."""
        for folder in (self.root, self._staging, self._releases, self._versions):
            records.refuse_foreign(folder, os.lstat(folder), "folder")


def usual_root() -> Path:
    """`/var/lib/plughost/packages` for root, else in XDG_DATA_HOME."""
    if os.geteuid() == 0 and not os.environ.get("XDG_DATA_HOME"):
        return Path("/var/lib/plughost/packages")
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return Path(home, "plughost", "packages")


def _ordered(version: str) -> tuple[list[int], bool, str]:
    numbers, _, early = version.partition("+")[0].partition("-")
    return [int(number) for number in numbers.split(".")], not early, early
