"""Installs a package into the store, atomically."""

from __future__ import annotations

import os
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from plughost._util import fsync
from plughost._util.threads import in_thread
from plughost.contracts.vai.target_platform import refuse_foreign
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits
from plughost.vai.packages.archive.unpack import READ_ONLY, unpack
from plughost.vai.packages.errors import PackageRefused
from plughost.vai.packages.fetch import PackageMetadata, fetch_archive, fetch_metadata
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.lockfile import Lockfile
from plughost.vai.packages.oci.content_store import Watch, no_watch
from plughost.vai.packages.store.installed import InstalledRelease
from plughost.vai.packages.store.integrity import MANIFEST, PACKAGE, SIGNATURE
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust.publishers import TrustedPublishers
from plughost.vai.packages.trust.signature import SignatureVerdict

KEPT_IN_DEVELOPMENT = ("trusted", "unsigned", "unknown_key")
"""The postures with which a package may be installed in development mode."""


class InstallResult(msgspec.Struct, frozen=True):
    """An installed release and the verdict on its signature."""

    installed: InstalledRelease
    verdict: SignatureVerdict


async def install(
    location: PackageLocation,
    store: Store,
    trust: TrustedPublishers,
    *,
    pins: Lockfile | None = None,
    now: datetime | None = None,
    watch: Watch = no_watch,
    limits: PackageLimits = DEFAULT_LIMITS,
) -> InstallResult:
    """Verifies, fetches, checks and unpacks a package, and adds it to the store. PackageRefused when it
    cannot be used.

    In production mode only a trusted signature counts. In development mode a package without one is
    installed, too, and its posture is reported. With `pins`, only what the lock file pins is installed.
    """
    try:
        with store.staging() as folder:
            metadata = await fetch_metadata(location, folder, trust, now, limits, pins)
            refuse_foreign(metadata.manifest)
            refuse_unwanted(metadata, trust)
            if pins is not None:
                pins.check(metadata.release, metadata.verdict)
            store.refuse_other(metadata.release)
            archived = await fetch_archive(location, metadata, folder, watch, limits)
            staged = folder / "release"
            await in_thread(partial(_stage, metadata, archived, staged, limits))
            trusted = metadata.verdict.posture == "trusted"
            added = await in_thread(partial(store.add, staged, metadata.release, trusted=trusted))
            return InstallResult(added, metadata.verdict)
    except OSError as error:
        raise PackageRefused(
            f"it could not be installed: {os.strerror(error.errno) if error.errno else error}",
            hint=f"check the disk space of {store.root}",
        ) from error


def refuse_unwanted(metadata: PackageMetadata, trust: TrustedPublishers) -> None:
    """Raises when the trust mode does not allow a package with this signature."""
    refusal = metadata.verdict.refusal(metadata.release)
    if refusal is not None and (
        trust.mode == "production" or metadata.verdict.posture not in KEPT_IN_DEVELOPMENT
    ):
        raise refusal


def _stage(metadata: PackageMetadata, archived: Path, staged: Path, limits: PackageLimits) -> None:
    fsync.make_folder(staged)
    with ArchiveFile(archived, limits) as layer:
        unpack(layer, staged / PACKAGE)
    fsync.write_new(staged / MANIFEST, metadata.body, READ_ONLY)
    if metadata.envelope is not None:
        fsync.write_new(staged / SIGNATURE, metadata.envelope, READ_ONLY)
