"""Queries of a layout's index: which manifest a name refers to, and which manifests refer to another. No
I/O."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from plughost._util.text import escape_controls
from plughost.vai.packages.oci.content_store import MANIFEST, Descriptor
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.oci.errors import NotFound
from plughost.vai.packages.oci.manifests import TAG, ImageIndex, ImageManifest, read_manifest
from plughost.vai.packages.oci.referrers_tag import is_fallback, older_tag

Read = Callable[[str], bytes]
"""Returns the verified bytes of the manifest with that digest."""


def find_manifest(index: ImageIndex, reference: str, read: Read, where: str) -> tuple[Descriptor, bytes]:
    """The manifest that a tag, a digest or the empty reference means."""
    if is_digest(reference):
        found = [entry for entry in index.manifests if entry.digest == reference]
    elif reference:
        found = [entry for entry in index.manifests if entry.annotations.get(TAG) == reference]
    else:
        found = [entry for entry in index.manifests if not _has_subject(entry, read)]
    distinct = {entry.digest: entry for entry in found}
    if len(distinct) != 1:
        raise _lookup_error(index, reference, len(distinct), where)
    ((digest, entry),) = distinct.items()
    return entry, read(digest)


def find_referrers(index: ImageIndex, digest: str, artifact_type: str, read: Read) -> list[Descriptor]:
    """The manifests whose subject is `digest`."""
    found = {}
    for entry in index.manifests:
        manifest = _read_manifest(entry, read)
        if manifest is None:
            continue
        subject = manifest.subject.digest if manifest.subject else ""
        if subject == digest or entry.annotations.get(TAG) == older_tag(digest):
            found[entry.digest] = Descriptor(
                entry.mediaType, entry.digest, entry.size, manifest.annotations, manifest.kind
            )
    return of_type(list(found.values()), artifact_type)


def of_type(entries: list[Descriptor], artifact_type: str) -> list[Descriptor]:
    """The entries of an artifact type; all of them when it is empty."""
    return [entry for entry in entries if artifact_type in ("", entry.artifactType)]


def with_entry(entries: list[Descriptor], pushed: Descriptor, tag: str | None) -> list[Descriptor]:
    """The index with one more manifest, and with the tag on that manifest only."""
    if tag is None:
        known = any(entry.digest == pushed.digest for entry in entries)
        return entries if known else [*entries, pushed]
    kept = [
        _without_tag(entry, tag)  # another manifest that had the tag stays, untagged
        for entry in entries
        if entry.digest != pushed.digest or entry.annotations.get(TAG) not in (None, tag)
    ]
    return [*kept, msgspec.structs.replace(pushed, annotations={TAG: tag})]


def tags_of(index: ImageIndex) -> list[str]:
    """The tags in an index, sorted."""
    return sorted({tag for entry in index.manifests if (tag := entry.annotations.get(TAG))})


def _without_tag(entry: Descriptor, tag: str) -> Descriptor:
    if entry.annotations.get(TAG) != tag:
        return entry
    rest = {key: value for key, value in entry.annotations.items() if key != TAG}
    return msgspec.structs.replace(entry, annotations=rest)


def _has_subject(entry: Descriptor, read: Read) -> bool:
    if is_fallback(entry.annotations.get(TAG, "")):
        return True
    manifest = _read_manifest(entry, read)
    return manifest is not None and manifest.subject is not None


def _read_manifest(entry: Descriptor, read: Read) -> ImageManifest | None:
    return read_manifest(read(entry.digest)) if entry.mediaType == MANIFEST else None


def _lookup_error(index: ImageIndex, reference: str, count: int, where: str) -> NotFound:
    tags = escape_controls(", ".join(tags_of(index)[:10]))
    hint = f"it has the tags {tags}" if tags else ""
    if reference:
        return NotFound(f"{where} has {'no' if not count else 'more than one'} {reference[:128]}", hint=hint)
    return NotFound(f"{where} holds {count or 'no'} artifacts: name one by its tag or digest", hint=hint)
