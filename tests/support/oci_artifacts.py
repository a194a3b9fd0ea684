"""Artifacts for tests: a manifest with a config and a layer, and something signed about it."""

from __future__ import annotations

import json

from plughost.vai.packages.oci.content_store import EMPTY, MANIFEST, ContentStore, Descriptor, no_progress
from plughost.vai.packages.oci.digests import describe

ARTIFACT = "application/vnd.vai.plugin.v1"
CONFIG = "application/vnd.vai.plugin.manifest.v1+toml"
LAYER = "application/vnd.vai.plugin.package.v1.tar"
SIGNATURE = "application/vnd.vai.signature.v1"


def image(
    config: Descriptor, layers: list[Descriptor], artifact_type: str, subject: Descriptor | None = None
) -> bytes:
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": artifact_type,
        "config": plain(config),
        "layers": [plain(layer) for layer in layers],
    }
    if subject is not None:
        document["subject"] = plain(subject)
    return json.dumps(document).encode()


def plain(blob: Descriptor) -> dict[str, object]:
    return {"mediaType": blob.mediaType, "digest": blob.digest, "size": blob.size}


async def put_artifact(
    content: ContentStore,
    tag: str | None = "0.1.0",
    layer: bytes = b"layer" * 1000,
    config: bytes = b'name = "x"\n',
) -> Descriptor:
    """An artifact as vai packages are."""
    blobs = [describe(config, CONFIG), describe(layer, LAYER)]
    for blob, data in zip(blobs, (config, layer), strict=True):
        await content.push_blob(blob, data, no_progress)
    return await content.push_manifest(image(blobs[0], blobs[1:], ARTIFACT), MANIFEST, tag)


async def put_signature(
    content: ContentStore, subject: Descriptor, envelope: bytes = b'{"payload": ""}'
) -> Descriptor:
    empty, signed = describe(b"{}", EMPTY), describe(envelope, "application/vnd.dsse.envelope.v1+json")
    await content.push_blob(empty, b"{}", no_progress)
    await content.push_blob(signed, envelope, no_progress)
    return await content.push_manifest(image(empty, [signed], SIGNATURE, subject), MANIFEST, None)
