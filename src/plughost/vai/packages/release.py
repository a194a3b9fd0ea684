"""A release of a package as an OCI artifact. The digest of its OCI manifest covers everything else.

The config blob is the package's `vai-plugin.toml`, the only layer is its archive. A signature is a second
artifact whose `subject` is the release.
"""

from __future__ import annotations

import msgspec

from plughost.contracts.vai import manifest
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, MAX_DOCUMENT_BYTES, PackageLimits
from plughost.vai.packages.errors import Unacceptable
from plughost.vai.packages.oci.content_store import EMPTY, MANIFEST, Descriptor
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.manifests import ImageManifest, read_manifest

PACKAGE = "application/vnd.vai.plugin.v1"
TOML = "application/vnd.vai.plugin.manifest.v1+toml"
ARCHIVE = "application/vnd.vai.plugin.package.v1.tar"
SIGNATURE = "application/vnd.vai.signature.v1"
ENVELOPE = "application/vnd.dsse.envelope.v1+json"
EMPTY_CONFIG = b"{}"
"""The empty config of a signature."""


class Release(msgspec.Struct, frozen=True):
    """The identity of a release: what is signed, pinned and installed."""

    package_id: str
    version: str
    digest: str
    """The digest of the OCI manifest, and so of everything."""
    manifest_digest: str
    """The digest of `vai-plugin.toml`."""

    @property
    def publisher(self) -> str:
        """The part of the package id before the slash."""
        return self.package_id.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.package_id}@{self.version}"


def document(package_manifest: manifest.VaiManifest, config: Descriptor, layer: Descriptor) -> bytes:
    """The OCI manifest of a package, encoded."""
    return _encode(
        ImageManifest(
            schemaVersion=2,
            mediaType=MANIFEST,
            artifactType=PACKAGE,
            config=config,
            layers=[layer],
            annotations={
                "org.opencontainers.image.title": package_manifest.package_id,
                "org.opencontainers.image.version": package_manifest.version,
            },
        )
    )


def signature_document(subject: Descriptor, envelope: bytes) -> bytes:
    """The OCI manifest of a signature, encoded."""
    return _encode(
        ImageManifest(
            schemaVersion=2,
            mediaType=MANIFEST,
            artifactType=SIGNATURE,
            config=describe(EMPTY_CONFIG, EMPTY),
            layers=[describe(envelope, ENVELOPE)],
            subject=Descriptor(subject.mediaType, subject.digest, subject.size),
        )
    )


def parts(body: bytes, limits: PackageLimits = DEFAULT_LIMITS) -> tuple[Descriptor, Descriptor]:
    """The config and the layer of a package's OCI manifest; Unacceptable when it is not that of a package."""
    found = read_manifest(body)
    if found.kind not in (PACKAGE, TOML):
        raise Unacceptable(f"not a package but {found.kind[:80]!a}")
    if found.config.mediaType != TOML or [layer.mediaType for layer in found.layers] != [ARCHIVE]:
        raise Unacceptable("a package is one manifest and one archive; this one is something else")
    (layer,) = found.layers
    if found.config.size > MAX_DOCUMENT_BYTES or layer.size > limits.total_bytes:
        raise Unacceptable(f"the package is larger than {limits.total_bytes} bytes")
    return found.config, layer


def identify(digest: str, config: Descriptor, text: bytes) -> tuple[Release, manifest.VaiManifest]:
    """The release and the manifest, parsed from the text of `vai-plugin.toml`."""
    package_manifest = manifest.parse(text, manifest.FILE)
    return Release(
        package_manifest.package_id, package_manifest.version, digest, config.digest
    ), package_manifest


def _encode(body: ImageManifest) -> bytes:
    return msgspec.json.encode(body)
