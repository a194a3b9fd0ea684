"""InstalledRelease: a release in a store."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost._util.untrusted_file import open_regular
from plughost.contracts.vai import manifest
from plughost.vai.packages.archive.limits import MAX_DOCUMENT_BYTES
from plughost.vai.packages.errors import Damaged
from plughost.vai.packages.oci.digests import digest_of
from plughost.vai.packages.release import Release
from plughost.vai.packages.store.integrity import PACKAGE, SIGNATURE, examine


class InstalledRelease(msgspec.Struct, frozen=True):
    """An installed release and its folder."""

    release: Release
    folder: Path

    @property
    def package(self) -> Path:
        """The folder of the package's own files."""
        return self.folder / PACKAGE

    @property
    def envelope(self) -> bytes | None:
        """The signature; None when it has none, empty when it cannot be read."""
        try:
            with open_regular(self.folder / SIGNATURE) as file:
                return file.read(MAX_DOCUMENT_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError:
            return b""

    @property
    def manifest(self) -> manifest.VaiManifest:
        """The manifest that was signed; Damaged when the installed file is another one."""
        path = self.package / manifest.FILE
        try:
            with open_regular(path) as file:
                text = file.read(manifest.LARGEST + 1)
        except OSError as error:
            raise self.damaged(f"{manifest.FILE}: {error.strerror or error}") from error
        if digest_of(text) != self.release.manifest_digest:
            raise self.damaged(f"{manifest.FILE} was changed after the installation")
        return manifest.parse(text, str(path))

    def damage(self) -> str | None:
        """The first difference from what was installed; None when there is none. Reads all files."""
        return examine(self.folder, self.release.digest).damage

    def damaged(self, why: str) -> Damaged:
        """The error for a release that differs from what was installed, with what to do about it."""
        return Damaged(
            f"the installed files of {self.release} were changed: {why}",
            plugin=str(self.release),
            hint="repair it: plughost install PACKAGE, with the file or reference that it was installed from "
            f"({self.release.digest})",
        )
