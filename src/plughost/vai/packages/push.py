"""Pushes a package to a registry: the file becomes an OCI artifact, and its signatures become referrers."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import msgspec

from plughost._util.threads import in_thread
from plughost.errors import InvalidSpec
from plughost.vai.packages import locate
from plughost.vai.packages.fetch import PackageMetadata, fetch_archive, fetch_metadata
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.oci.content_store import MANIFEST, Watch
from plughost.vai.packages.oci.copy_artifact import copy, refuse_another, set_tag
from plughost.vai.packages.oci.digests import describe
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.open_reference import open_content
from plughost.vai.packages.oci.reference import Reference
from plughost.vai.packages.pack import misnamed, tag_of
from plughost.vai.packages.release import SIGNATURE, Release
from plughost.vai.packages.sign import attach
from plughost.vai.packages.trust.publishers import TrustedPublishers


class Pushed(msgspec.Struct, frozen=True):
    """A pushed release, its reference, and the digests of its signatures."""

    release: Release
    reference: str
    """With tag and digest."""
    signatures: list[str]


async def push(package: str, to: Reference, watch: Watch, *, plain_http: bool = False) -> Pushed:
    """Pushes a packed file, a layout, or a package of another registry. The tag is the version; `to` may name
    one more.

    The version's tag is set first, and never moved to other bytes, whatever the second tag is.
    """
    if to.digest:
        raise InvalidSpec(
            f"{to} names a digest, but the digest comes from the package", hint="name a tag, or leave it out"
        )
    with tempfile.TemporaryDirectory(prefix="plughost-push-") as folder:
        async with locate.open_package(package, plain_http=plain_http) as location:
            metadata, gathered = await _gather(location, Path(folder), watch)
        version = tag_of(metadata.release.version)
        tag = to.tag or version
        if misnamed(tag, metadata.release.version):
            raise InvalidSpec(f"{tag} is not the version of {metadata.release}", hint="leave the tag out")
        async with open_content(to, plain_http=plain_http, create=True) as target:
            await refuse_another(target, tag, metadata.release.digest)
            copied = await copy(
                metadata.release.digest, gathered, target, version, watch, signatures=SIGNATURE
            )
            if tag != version:
                await set_tag(target, metadata.body, tag)
    named = msgspec.structs.replace(to, tag=tag, digest=copied.digest)
    return Pushed(metadata.release, str(named), copied.referrers)


async def _gather(
    location: PackageLocation, folder: Path, watch: Watch
) -> tuple[PackageMetadata, LayoutFolder]:
    """Copies the package and all of its signatures into one layout."""
    metadata = await fetch_metadata(location, folder, TrustedPublishers())
    if metadata.verdict.posture in ("altered", "invalid") and (
        refusal := metadata.verdict.refusal(metadata.release)
    ):
        raise refusal
    archived = await fetch_archive(location, metadata, folder, watch)
    layout = LayoutFolder(folder / "layout")
    await in_thread(layout.prepare)
    await in_thread(partial(os.rename, archived, layout.path_of(metadata.layer)))
    await copy(metadata.release.digest, location.content, layout, None, signatures=SIGNATURE)
    if location.beside is not None and metadata.envelope is not None:
        await attach(layout, describe(metadata.body, MANIFEST), metadata.envelope)
    return metadata, layout
