"""A release in a store."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost.contracts.vai import manifest
from plughost.packages.errors import Damaged
from plughost.packages.integrity import PACKAGE, SIGNATURE, examine
from plughost.packages.limits import SMALL
from plughost.packages.oci.digests import digest_of
from plughost.packages.oci.regular import open_regular
from plughost.packages.release import Release


class Installed(msgspec.Struct, frozen=True):
    release: Release
    folder: Path

    @property
    def package(self) -> Path:
        """The package's own files."""
        return self.folder / PACKAGE

    @property
    def envelope(self) -> bytes | None:
        """Its signature; empty, which none is, when it cannot be read."""
        try:
            with open_regular(self.folder / SIGNATURE) as file:
                return file.read(SMALL + 1)
        except FileNotFoundError:
            return None
        except OSError:
            return b""

    @property
    def manifest(self) -> manifest.Manifest:
        """The manifest that was signed; Damaged when the installed file is another one."""
        path = self.package / manifest.FILE
        try:
            with open_regular(path) as file:
                text = file.read(manifest.LARGEST + 1)
        except OSError as error:
            raise self.damaged(f"{manifest.FILE}: {error.strerror or error}") from error
        if digest_of(text) != self.release.manifest_digest:
            raise self.damaged(f"{manifest.FILE} is not the one that was installed")
        return manifest.parse(text, str(path))

    def damage(self) -> str | None:
        """The first difference from what was installed; None when there is none. Reads all files."""
        return examine(self.folder, self.release.digest).damage

    def damaged(self, why: str) -> Damaged:
        """The refusal of a release that differs from what was installed, with the remedy."""
        return Damaged(
            f"the installed files of {self.release} were changed: {why}",
            plugin=str(self.release),
            hint="repair it: plughost install PACKAGE, with the file or reference that it was installed from "
            f"({self.release.digest})",
        )
