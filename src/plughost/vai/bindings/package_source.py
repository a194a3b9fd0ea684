"""Sources of packages: the store of installed and trusted packages, or the folder of an author."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from plughost.contracts.vai import manifest
from plughost.contracts.vai.manifest import VaiManifest
from plughost.errors import InvalidSpec
from plughost.vai.bindings.package import Package
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust.publishers import Publisher, TrustedPublishers
from plughost.vai.packages.trust.signature import verify


class InstalledPackages:
    """The packages of a store. In production mode, only those whose signature is valid now."""

    def __init__(self, store: Store, trust: TrustedPublishers) -> None:
        self._store = store
        self._trust = trust
        self._manifests: dict[str, VaiManifest] = {}
        """By the digest of their release; a signed manifest never changes, whatever happens to its file."""

    def find(self, package_id: str, version: str) -> Package:
        """The package; with an empty version, the only one that is installed."""
        installed = self._store.find(package_id, version)
        release = installed.release
        verdict = verify(installed.envelope, release, self._trust, datetime.now(UTC))
        refusal = verdict.refusal(release)
        if refusal is not None and (self._trust.mode == "production" or verdict.posture == "altered"):
            raise refusal
        publisher = self._trust.publishers.get(release.publisher, Publisher())
        return Package(
            folder=str(installed.package),
            digest=release.digest,
            manifest=self._manifest(installed),
            trusted_inline=publisher.inline and refusal is None,
            check=partial(self._store.check, installed),
        )

    def _manifest(self, installed: InstalledRelease) -> VaiManifest:
        digest = installed.release.digest
        if digest not in self._manifests:
            self._manifests[digest] = installed.manifest
        return self._manifests[digest]


class FolderPackage:
    """The package in the folder of an author. It is not signed, so it is never trusted for the class
    inline."""

    def __init__(self, folder: Path) -> None:
        self.package = Package(
            folder=str(folder.resolve()),
            digest=f"folder:{folder.resolve()}",
            manifest=manifest.read(folder, manifest.in_folder(folder)),
        )

    def find(self, package_id: str, version: str) -> Package:
        """The package of the folder, in any version; InvalidSpec for another package id."""
        if package_id != self.package.manifest.package_id:
            raise InvalidSpec(f"{package_id} is not in {self.package.folder}")
        return self.package
