"""A release in a store."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost.base.errors import InvalidConfig
from plughost.contracts.vai import manifest
from plughost.packages import layer
from plughost.packages.errors import PackageRefused
from plughost.packages.folder import listed
from plughost.packages.oci.digests import digest_of
from plughost.packages.oci.errors import BadContent
from plughost.packages.release import Release, parts

MANIFEST = "manifest.json"
SIGNATURE = "signature.json"
PACKAGE = "package"


class Installed(msgspec.Struct, frozen=True):
    release: Release
    folder: Path

    @property
    def package(self) -> Path:
        """The package's own files."""
        return self.folder / PACKAGE

    @property
    def envelope(self) -> bytes | None:
        """Its signature."""
        try:
            return (self.folder / SIGNATURE).read_bytes()
        except FileNotFoundError:
            return None

    @property
    def manifest(self) -> manifest.Manifest:
        return manifest.read(self.package)

    def damage(self) -> str | None:
        """What is not as it was installed: archived again, the files must give the same digest."""
        try:
            body = (self.folder / MANIFEST).read_bytes()
            if digest_of(body) != self.release.digest:
                return f"{MANIFEST} is not the one that was installed"
            _, archived = parts(body)
            layer.write(listed(self.package), out := layer.Sum())
        except (OSError, InvalidConfig, PackageRefused, BadContent) as error:
            return str(error)
        return None if out.digest == archived.digest else "its files are not those that were installed"
