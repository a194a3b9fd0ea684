"""Fetches a package: first its metadata (manifest and signature), then its archive.

The metadata tells whether the package is wanted at all. Every digest is checked before the bytes are parsed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from plughost._util.threads import in_thread
from plughost._util.untrusted_file import open_regular
from plughost.contracts.vai.manifest import FILE, VaiManifest
from plughost.errors import InvalidSpec
from plughost.vai.packages.archive import archive_file
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, MAX_DOCUMENT_BYTES, PackageLimits
from plughost.vai.packages.errors import Altered, Unacceptable
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.lockfile import Lockfile
from plughost.vai.packages.oci.content_store import (
    ContentStore,
    Descriptor,
    Watch,
    counting,
    no_progress,
    no_watch,
)
from plughost.vai.packages.oci.digests import check, digest_of, is_digest
from plughost.vai.packages.oci.errors import BadContent, NotFound
from plughost.vai.packages.oci.manifests import read_manifest
from plughost.vai.packages.pack import misnamed, write_file
from plughost.vai.packages.release import ENVELOPE, SIGNATURE, Release, identify, parts
from plughost.vai.packages.trust import publishers
from plughost.vai.packages.trust.publishers import TrustedPublishers
from plughost.vai.packages.trust.signature import Posture, SignatureVerdict, verify
from plughost.vai.packages.validate import validate_contents

_MAX_SIGNATURES = 256
_NO_SIGNATURE = b" "
"""Stands for a referrer that is not a signature: anybody may attach something to a package. It counts as
invalid, other than no signature."""
BEST_FIRST: tuple[Posture, ...] = ("trusted", "unknown_key", "unsigned", "invalid", "altered")
"""Which of several signatures counts: whoever may publish may add worthless ones, and that does no harm."""


class PackageMetadata(msgspec.Struct, frozen=True):
    """A release with its manifest and the verdict on its signature, before its archive is fetched."""

    release: Release
    manifest: VaiManifest
    text: bytes
    """The content of `vai-plugin.toml`."""
    body: bytes
    """The OCI manifest."""
    layer: Descriptor
    verdict: SignatureVerdict
    envelope: bytes | None


async def fetch_metadata(
    location: PackageLocation,
    folder: Path,
    trust: TrustedPublishers,
    now: datetime | None = None,
    limits: PackageLimits = DEFAULT_LIMITS,
    pins: Lockfile | None = None,
) -> PackageMetadata:
    """Fetches the manifest and the signatures of a package, into `folder`, and verifies them.

    Of several trusted signatures the one by a pinned key counts. Altered when the package was requested by
    the tag of another version: the version is signed, while the registry alone decides what a tag refers to.
    """
    found, body = await location.content.manifest(location.name)
    check(body, found.digest)
    if is_digest(location.name) and found.digest != location.name:
        raise Altered(f"the package is {found.digest}, not {location.name}", hint="do not trust its source")
    config, archived = parts(body, limits)
    text = await _fetch_small(location.content, config, folder / "config")
    release, package_manifest = identify(found.digest, config, text)
    if misnamed(location.name, release.version):
        raise Altered(f"the tag {location.name} refers to {release}", hint="do not trust that registry")
    pinned = pins.key_of(release) if pins else ""
    evaluate = partial(verify, release=release, trust=trust, now=now or publishers.now())
    verdict, envelope = await _best_signature(_envelopes(location, found, folder), evaluate, pinned)
    return PackageMetadata(release, package_manifest, text, body, archived, verdict, envelope)


async def fetch_archive(
    location: PackageLocation,
    metadata: PackageMetadata,
    folder: Path,
    watch: Watch = no_watch,
    limits: PackageLimits = DEFAULT_LIMITS,
) -> Path:
    """Fetches the archive of a package into `folder`, and checks its digest, its canonical form and its
    content."""
    path = folder / "layer"
    await location.content.fetch(metadata.layer, path, counting(watch, metadata.layer.size))
    await in_thread(partial(_check_archive, location, metadata, path, limits))
    return path


def _check_archive(
    location: PackageLocation, metadata: PackageMetadata, path: Path, limits: PackageLimits
) -> None:
    if location.file is not None:
        blobs: dict[str, bytes | Path] = {
            digest_of(metadata.text): metadata.text,
            metadata.layer.digest: path,
        }
        write_file(metadata.body, metadata.release.version, blobs, hashed := archive_file.HashingWriter())
        if hashed.digest != _hash_file(location.file).digest:
            raise Altered(f"{location.file} was changed after it was packed", plugin=str(metadata.release))
    with archive_file.ArchiveFile(path, limits) as archive:
        if FILE not in archive.members or archive.read(archive.members[FILE]) != metadata.text:
            raise Unacceptable(
                f"the {FILE} in its archive differs from the one in its OCI config",
                plugin=str(metadata.release),
            )
        validate_contents(archive, Path())


async def _best_signature(
    envelopes: AsyncIterator[bytes], evaluate: Callable[[bytes | None], SignatureVerdict], pinned: str
) -> tuple[SignatureVerdict, bytes | None]:
    """The signature with the best verdict. Fetches no more of them once none can be better."""
    best: tuple[SignatureVerdict, bytes | None] | None = None

    def rank(verdict: SignatureVerdict) -> tuple[int, bool]:
        return BEST_FIRST.index(verdict.posture), pinned not in ("", verdict.key_id)

    async for envelope in envelopes:
        verdict = evaluate(envelope)
        if best is None or rank(verdict) < rank(best[0]):
            best = verdict, envelope
        if rank(best[0]) == (0, False):
            break
    return best or (evaluate(None), None)


async def _envelopes(location: PackageLocation, found: Descriptor, folder: Path) -> AsyncIterator[bytes]:
    """The signature file beside a packed file, or the signatures attached in the content store."""
    if location.beside is not None and (beside := await in_thread(partial(_read_beside, location.beside))):
        yield beside
        return
    count = 0
    for number, entry in enumerate(await location.content.referrers(found.digest, SIGNATURE)):
        try:
            envelope = await _fetch_envelope(location.content, entry, folder / f"envelope-{number}")
        except NotFound:
            continue  # lists outlive what they list
        except (BadContent, Unacceptable):
            envelope = _NO_SIGNATURE
        yield envelope
        count += 1
        if count == _MAX_SIGNATURES:
            return


async def _fetch_envelope(content: ContentStore, entry: Descriptor, into: Path) -> bytes:
    _, body = await content.manifest(entry.digest)
    check(body, entry.digest)
    blobs = read_manifest(body).layers
    if [blob.mediaType for blob in blobs] != [ENVELOPE]:
        return _NO_SIGNATURE
    return await _fetch_small(content, blobs[0], into)


def _read_beside(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(MAX_DOCUMENT_BYTES + 1) or _NO_SIGNATURE
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror or error}") from error


async def _fetch_small(content: ContentStore, blob: Descriptor, into: Path) -> bytes:
    if blob.size > MAX_DOCUMENT_BYTES:
        raise Unacceptable(f"{blob.digest} is larger than {MAX_DOCUMENT_BYTES} bytes")
    await content.fetch(blob, into, no_progress)
    data = await in_thread(into.read_bytes)
    check(data, blob.digest)
    return data


def _hash_file(path: Path) -> archive_file.HashingWriter:
    with path.open("rb") as file:
        return archive_file.hash_file(file)
