"""Verifies a package that is not installed: its signature, and whether it is complete and unaltered."""

from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path

import msgspec

from plughost.errors import InvalidConfig
from plughost.vai.packages.errors import Altered, HoldsSecret, Unacceptable
from plughost.vai.packages.fetch import fetch_archive, fetch_metadata
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.oci.content_store import Watch, no_watch
from plughost.vai.packages.oci.errors import BadContent, NoLayout, NotFound
from plughost.vai.packages.release import Release
from plughost.vai.packages.trust.publishers import TrustedPublishers
from plughost.vai.packages.trust.signature import SignatureVerdict


class Verified(msgspec.Struct, frozen=True):
    """The verdict on a package, and its release."""

    verdict: SignatureVerdict
    release: Release | None
    """None when not even its manifest could be read."""


async def verify_package(
    location: PackageLocation, trust: TrustedPublishers, now: datetime | None = None, watch: Watch = no_watch
) -> Verified:
    """The verdict on a package: exactly one posture. A package whose content cannot be read any more is
    altered.

    A file that was never a package, neither by its name nor by its form, is invalid.
    """
    release = None
    with tempfile.TemporaryDirectory(prefix="plughost-verify-") as folder:
        try:
            metadata = await fetch_metadata(location, Path(folder), trust, now)
            release = metadata.release
            await fetch_archive(location, metadata, Path(folder), watch)
        except (BadContent, NotFound, Altered, Unacceptable) as error:
            if isinstance(error, NotFound) and location.file is None:
                raise  # a registry or layout never had it, so nothing is missing from the package
            if isinstance(error, NoLayout) and location.file is None:
                return Verified(SignatureVerdict("invalid", why=error.message), None)
            return Verified(SignatureVerdict("altered", _publisher(release), why=error.message), release)
        except (HoldsSecret, InvalidConfig) as error:  # unaltered, but not installable
            return Verified(SignatureVerdict("invalid", _publisher(release), why=error.message), release)
    return Verified(metadata.verdict, release)


def _publisher(release: Release | None) -> str:
    return release.publisher if release else ""
