"""OCI manifests and indexes, parsed as untrusted input."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from plughost.vai.packages.oci.content_store import INDEX, MANIFEST, MAX_BLOB, MAX_MANIFEST, Descriptor
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.oci.errors import BadContent

MAX_BLOBS = 128
MAX_ENTRIES = 4096
TAG = "org.opencontainers.image.ref.name"
"""The annotation with the tag of a manifest, in the index of a layout."""


class ImageManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """An OCI image manifest: the config and the layers of one artifact."""

    schemaVersion: int
    config: Descriptor
    layers: list[Descriptor]
    mediaType: str = ""
    artifactType: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}

    @property
    def kind(self) -> str:
        """The type of the artifact; older tools use the media type of the config for it."""
        return self.artifactType or self.config.mediaType

    @property
    def blobs(self) -> list[Descriptor]:
        """The config and the layers."""
        return [self.config, *self.layers]


class ImageIndex(msgspec.Struct, frozen=True, omit_defaults=True):
    """An OCI image index: a list of manifests."""

    schemaVersion: int
    manifests: list[Descriptor]
    mediaType: str = ""


Document = TypeVar("Document", ImageManifest, ImageIndex)


def read_manifest(body: bytes) -> ImageManifest:
    """Parses and validates a manifest; BadContent when it is invalid."""
    manifest = _read(body, ImageManifest, MANIFEST)
    if len(manifest.layers) > MAX_BLOBS:
        raise BadContent(f"a manifest with more than {MAX_BLOBS} layers")
    for blob in (*manifest.blobs, *([manifest.subject] if manifest.subject else [])):
        check_descriptor(blob)
    return manifest


def read_index(body: bytes) -> ImageIndex:
    """Parses and validates an index; BadContent when it is invalid."""
    index = _read(body, ImageIndex, INDEX)
    if len(index.manifests) > MAX_ENTRIES:
        raise BadContent(f"an index with more than {MAX_ENTRIES} entries")
    for entry in index.manifests:
        check_descriptor(entry)
    return index


def write_index(entries: list[Descriptor]) -> bytes:
    """Encodes an index."""
    return msgspec.json.encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})


def check_descriptor(blob: Descriptor) -> Descriptor:
    """The descriptor, if it is valid; otherwise BadContent."""
    if not is_digest(blob.digest):
        raise BadContent(f"{blob.digest[:80]!a} is not a sha256 digest")
    if not 0 <= blob.size <= MAX_BLOB:
        raise BadContent(f"{blob.digest} cannot have {blob.size} bytes")
    return blob


def _read(body: bytes, kind: type[Document], media_type: str) -> Document:
    what = kind.__name__.removeprefix("Image").lower()
    if len(body) > MAX_MANIFEST:
        raise BadContent(f"not an OCI {what}: more than {MAX_MANIFEST >> 20} MiB")
    try:
        document = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise BadContent(f"not an OCI {what}: {error}") from None
    if document.schemaVersion != 2 or document.mediaType not in ("", media_type):
        raise BadContent(f"not an OCI {what}: {document.mediaType[:80]!a}, schema {document.schemaVersion}")
    return document
