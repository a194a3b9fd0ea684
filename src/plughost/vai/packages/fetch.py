"""Fetches a package: first its metadata (manifest and signature), then its archive.

The metadata tells whether the package is wanted at all. Every digest is checked before the bytes are parsed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from plughost._util.regular_file import open_regular
from plughost._util.threads import in_thread
from plughost.contracts.vai.manifest import FILE, VaiManifest
from plughost.errors import InvalidSpec
from plughost.vai.packages.archive import archive_file
from plughost.vai.packages.archive.limits import SMALL, USUAL, PackageLimits
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

_MOST_SIGNATURES = 256
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
    place: PackageLocation,
    folder: Path,
    who: TrustedPublishers,
    now: datetime | None = None,
    limits: PackageLimits = USUAL,
    pins: Lockfile | None = None,
) -> PackageMetadata:
    """Fetches the manifest and the signatures of a package, into `folder`, and verifies them.

    Of several trusted signatures the one by a pinned key counts. Altered when the package was requested by
    the tag of another version: the version is signed, while the registry alone decides what a tag refers to.
    """
    found, body = await place.content.manifest(place.name)
    check(body, found.digest)
    if is_digest(place.name) and found.digest != place.name:
        raise Altered(f"the package is {found.digest}, not {place.name}", hint="do not trust its source")
    config, archived = parts(body, limits)
    text = await _small(place.content, config, folder / "config")
    release, told = identify(found.digest, config, text)
    if misnamed(place.name, release.version):
        raise Altered(f"what the tag {place.name} leads to is {release}", hint="do not trust that registry")
    pinned = pins.key_of(release) if pins else ""
    judge = partial(verify, release=release, trust=who, now=now or publishers.now())
    verdict, envelope = await _best(_envelopes(place, found, folder), judge, pinned)
    return PackageMetadata(release, told, text, body, archived, verdict, envelope)


async def fetch_archive(
    place: PackageLocation,
    one: PackageMetadata,
    folder: Path,
    watch: Watch = no_watch,
    limits: PackageLimits = USUAL,
) -> Path:
    """Fetches the archive of a package into `folder`, and checks its digest, its canonical form and its
    content."""
    path = folder / "layer"
    await place.content.fetch(one.layer, path, counting(watch, one.layer.size))
    await in_thread(partial(_refuse_unfit, place, one, path, limits))
    return path


def _refuse_unfit(place: PackageLocation, one: PackageMetadata, path: Path, limits: PackageLimits) -> None:
    if place.file is not None:
        blobs: dict[str, bytes | Path] = {digest_of(one.text): one.text, one.layer.digest: path}
        write_file(one.body, one.release.version, blobs, again := archive_file.Sum())
        if again.digest != _sum(place.file).digest:
            raise Altered(f"{place.file} is not as it was packed", plugin=str(one.release))
    with archive_file.ArchiveFile(path, limits) as inside:
        if FILE not in inside.members or inside.read(inside.members[FILE]) != one.text:
            raise Unacceptable(f"the {FILE} in its archive is another one", plugin=str(one.release))
        validate_contents(inside, Path())


async def _best(
    envelopes: AsyncIterator[bytes], judge: Callable[[bytes | None], SignatureVerdict], pinned: str
) -> tuple[SignatureVerdict, bytes | None]:
    """The signature with the best verdict. Fetches no more of them once none can be better."""
    best: tuple[SignatureVerdict, bytes | None] | None = None

    def rank(verdict: SignatureVerdict) -> tuple[int, bool]:
        return BEST_FIRST.index(verdict.posture), pinned not in ("", verdict.key_id)

    async for envelope in envelopes:
        verdict = judge(envelope)
        if best is None or rank(verdict) < rank(best[0]):
            best = verdict, envelope
        if rank(best[0]) == (0, False):
            break
    return best or (judge(None), None)


async def _envelopes(place: PackageLocation, found: Descriptor, folder: Path) -> AsyncIterator[bytes]:
    """The signature file beside a packed file, or the signatures attached in the content store."""
    if place.beside is not None and (beside := await in_thread(partial(_beside, place.beside))):
        yield beside
        return
    there = 0
    for number, entry in enumerate(await place.content.referrers(found.digest, SIGNATURE)):
        try:
            envelope = await _enclosed(place.content, entry, folder / f"envelope-{number}")
        except NotFound:
            continue  # lists outlive what they list
        except (BadContent, Unacceptable):
            envelope = _NO_SIGNATURE
        yield envelope
        there += 1
        if there == _MOST_SIGNATURES:
            return


async def _enclosed(content: ContentStore, entry: Descriptor, into: Path) -> bytes:
    _, body = await content.manifest(entry.digest)
    check(body, entry.digest)
    blobs = read_manifest(body).layers
    if [blob.mediaType for blob in blobs] != [ENVELOPE]:
        return _NO_SIGNATURE
    return await _small(content, blobs[0], into)


def _beside(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(SMALL + 1) or _NO_SIGNATURE
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror or error}") from error


async def _small(content: ContentStore, blob: Descriptor, into: Path) -> bytes:
    if blob.size > SMALL:
        raise Unacceptable(f"{blob.digest} is larger than {SMALL} bytes")
    await content.fetch(blob, into, no_progress)
    data = await in_thread(into.read_bytes)
    check(data, blob.digest)
    return data


def _sum(path: Path) -> archive_file.Sum:
    with path.open("rb") as file:
        return archive_file.sum_of(file)
