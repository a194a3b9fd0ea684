"""Copies an OCI artifact with its referrers (signatures first) from one content store to another."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import (
    MANIFEST,
    ContentStore,
    Descriptor,
    Progress,
    Watch,
    counting,
    no_progress,
    no_watch,
)
from plughost.vai.packages.oci.digests import digest_of
from plughost.vai.packages.oci.errors import BadContent, NotFound
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.manifests import ImageManifest, read_manifest
from plughost.vai.packages.oci.referrers_tag import older_tag

MAX_ARTIFACT = 8 << 30
MAX_SIGNATURES = 1024
MAX_REFERRERS = 64
"""Limit on other referrers: anybody may attach as many as they like."""
MAX_REFERRER_BYTES = 16 << 20
"""Bytes of one referrer."""


class FetchedManifest(msgspec.Struct, frozen=True):
    """A manifest: its descriptor, its bytes, and its parsed form."""

    descriptor: Descriptor
    body: bytes
    manifest: ImageManifest


class Copied(msgspec.Struct, frozen=True):
    """The result of a copy."""

    digest: str
    size: int
    """Bytes of the artifact's blobs."""
    referrers: list[str]
    """Digests of the referrers: signatures and others."""
    artifactType: str


async def copy(
    reference: str,
    source: ContentStore,
    target: ContentStore,
    tag: str | None,
    watch: Watch = no_watch,
    *,
    signatures: str = "",
) -> Copied:
    """Copies an artifact and its referrers. The tag, if any, is set last: whoever sees it finds everything
    there.

    A tag that refers to another artifact already is not moved, and that is an error. Referrers of the type
    `signatures` are copied before others; of those, the ones that are too large or too many are left out.
    """
    artifact = await _fetch_manifest(source, reference)
    _check_size(artifact, MAX_ARTIFACT)
    await refuse_another(target, tag, artifact.descriptor.digest)
    listed = await source.referrers(artifact.descriptor.digest, "")
    referrers = await _fetch_referrers(
        source, [entry for entry in listed if entry.artifactType == signatures], MAX_SIGNATURES
    )
    referrers += await _fetch_referrers(
        source, [entry for entry in listed if entry.artifactType != signatures], MAX_REFERRERS
    )
    blobs = {blob.digest: blob for fetched in (artifact, *referrers) for blob in fetched.manifest.blobs}
    progress = counting(watch, sum(blob.size for blob in blobs.values()))
    for blob in blobs.values():
        await _copy_blob(blob, source, target, progress)
    await target.push_manifest(artifact.body, MANIFEST, None)
    for referrer in referrers:
        name = None if referrer.manifest.subject else older_tag(artifact.descriptor.digest)
        await target.push_manifest(referrer.body, MANIFEST, name)
    if tag is not None:
        await set_tag(target, artifact.body, tag)
    return Copied(
        artifact.descriptor.digest,
        sum(blob.size for blob in artifact.manifest.blobs),
        [referrer.descriptor.digest for referrer in referrers],
        artifact.manifest.kind,
    )


async def set_tag(target: ContentStore, body: bytes, tag: str) -> None:
    """Sets a tag for a manifest that is stored already.

    A registry cannot set a tag only if it is free (no compare-and-swap). So the tag is read just before,
    since the transfer took its time, and once more afterwards: of two who pushed at once, mostly one gets an
    error.
    """
    await refuse_another(target, tag, digest_of(body))
    await target.push_manifest(body, MANIFEST, tag)
    await refuse_another(target, tag, digest_of(body))


async def refuse_another(target: ContentStore, tag: str | None, digest: str) -> None:
    """Raises when the tag refers to another digest: a published version never changes."""
    if tag is None:
        return
    try:
        there, _ = await target.manifest(tag)
    except NotFound:
        return
    if there.digest != digest:
        raise InvalidSpec(
            f"{tag} is already published with different contents: {there.digest}, not {digest}",
            hint="give the new contents a new version",
        )


async def _fetch_referrers(
    source: ContentStore, listed: list[Descriptor], most: int
) -> list[FetchedManifest]:
    """Fetches the listed referrers that still exist (lists outlive what they list) and are not too large."""
    referrers: list[FetchedManifest] = []
    for entry in listed:
        try:
            referrer = await _fetch_manifest(source, entry.digest)
            _check_size(referrer, MAX_REFERRER_BYTES)
        except (NotFound, BadContent):
            continue
        referrers.append(referrer)
        if len(referrers) == most:
            break
    return referrers


async def _fetch_manifest(source: ContentStore, reference: str) -> FetchedManifest:
    descriptor, body = await source.manifest(reference)
    if descriptor.mediaType != MANIFEST:
        raise BadContent(f"{descriptor.digest} is an index of several artifacts, not one artifact")
    return FetchedManifest(descriptor, body, read_manifest(body))


def _check_size(fetched: FetchedManifest, limit: int) -> None:
    size = sum(blob.size for blob in fetched.manifest.blobs)
    if size > limit:
        raise BadContent(f"{fetched.descriptor.digest} has {size} bytes; the maximum is {limit}")


async def _copy_blob(
    blob: Descriptor, source: ContentStore, target: ContentStore, progress: Progress
) -> None:
    if isinstance(target, LayoutFolder):
        # Fetched straight to its place, where the next attempt resumes; an existing blob is only verified.
        target.prepare()
        await source.fetch(blob, target.path_of(blob), progress)
    elif isinstance(source, LayoutFolder):
        await target.push_blob(blob, source.path_of(blob), progress)
    else:
        with tempfile.TemporaryDirectory(prefix="plughost-") as folder:
            path = Path(folder, "blob")
            await source.fetch(blob, path, no_progress)
            await target.push_blob(blob, path, progress)
