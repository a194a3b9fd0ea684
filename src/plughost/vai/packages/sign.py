"""Signs a package: the signature goes beside a packed file, or into a content store as an OCI referrer."""

from __future__ import annotations

import os
import secrets
import tempfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from plughost.errors import InvalidSpec
from plughost.vai.packages.fetch import fetch_archive, fetch_metadata
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.oci.content_store import (
    EMPTY,
    MANIFEST,
    ContentStore,
    Descriptor,
    Watch,
    no_progress,
    no_watch,
)
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.release import EMPTY_CONFIG, ENVELOPE, Release, signature_document
from plughost.vai.packages.trust import signature
from plughost.vai.packages.trust.keys import public_of
from plughost.vai.packages.trust.publishers import TrustedPublishers

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Signed(msgspec.Struct, frozen=True):
    """The result of signing: the release, the key, and the file of the signature."""

    release: Release
    key_id: str
    file: str | None
    """None when the signature went into a layout or a registry."""


async def sign(
    location: PackageLocation,
    private: Ed25519PrivateKey,
    signed_at: datetime,
    into: Path | None = None,
    watch: Watch = no_watch,
) -> Signed:
    """Checks and signs a package. `into` is another file for the signature."""
    if into is not None and not into.name:
        raise InvalidSpec(f"{into} is a folder", hint="name a file for the signature")
    with tempfile.TemporaryDirectory(prefix="plughost-sign-") as folder:
        metadata = await fetch_metadata(location, Path(folder), TrustedPublishers(), signed_at)
        await fetch_archive(location, metadata, Path(folder), watch)
    envelope = signature.sign(metadata.release, private, signed_at)
    target = into or location.beside
    if target is None:
        await attach(location.content, describe(metadata.body, MANIFEST), envelope)
    elif target == location.beside and metadata.verdict.posture == "altered":
        raise InvalidSpec(
            f"{target} is the signature of another package",
            hint="keep each package in a folder of its own, or name a file with --out",
        )
    else:
        _write(target, envelope)
    return Signed(metadata.release, public_of(private).id, str(target) if target else None)


async def attach(content: ContentStore, subject: Descriptor, envelope: bytes) -> None:
    """Pushes a signature as a referrer of its subject."""
    for data, media_type in ((EMPTY_CONFIG, EMPTY), (envelope, ENVELOPE)):
        await content.push_blob(describe(data, media_type), data, no_progress)
    await content.push_manifest(signature_document(subject, envelope), MANIFEST, None)


def _write(path: Path, content: bytes) -> None:
    """Writes a file atomically."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:  # "x": follows no symlink that somebody has put there
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
