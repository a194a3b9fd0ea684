"""Packs a folder into one file: an OCI layout in a tar. Reproducible: equal content gives equal bytes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from plughost._util.located.document import LocatedProblem
from plughost._util.semver import is_semantic
from plughost.contracts.vai.manifest import FILE, VaiManifest
from plughost.errors import InvalidConfig, InvalidSpec
from plughost.vai.packages.archive import archive_file, canonical_tar
from plughost.vai.packages.archive.canonical_tar import ArchiveMember
from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits
from plughost.vai.packages.archive.source_tree import SourceTree, packable
from plughost.vai.packages.oci.content_store import MANIFEST, Descriptor
from plughost.vai.packages.oci.digests import describe, digest_of, hex_of
from plughost.vai.packages.oci.layout.folder import VERSION
from plughost.vai.packages.oci.manifests import TAG, write_index
from plughost.vai.packages.release import ARCHIVE, PACKAGE, TOML, document
from plughost.vai.packages.validate import validate_contents

SUFFIX = ".vai.tar"


class Packed(msgspec.Struct, frozen=True):
    """The packed file, with the id, version and digest of its package."""

    file: str
    package_id: str
    version: str
    digest: str
    files: int
    bytes: int


def pack(folder: Path, into: Path = Path(), limits: PackageLimits = DEFAULT_LIMITS) -> Packed:
    """Writes `NAME-VERSION.vai.tar` into a folder, or to the path of a file with that suffix.

    InvalidConfig lists everything that keeps the folder from being a package; HoldsSecret lists where secrets
    are.
    """
    if not (folder / FILE).is_file():
        raise InvalidConfig([LocatedProblem(str(folder), 0, "", f"there is no {FILE}")])
    files = packable(folder, limits)
    to_file = into.name.endswith(SUFFIX)
    parent = into.parent if to_file else into
    if not parent.is_dir():
        raise InvalidSpec(f"there is no folder {parent}", hint="make it, or name another with --out")
    try:
        with tempfile.TemporaryDirectory(prefix=".plughost-pack-", dir=parent) as temporary:
            package_manifest, packed = _write(files, Path(temporary), limits)
            target = (
                into
                if to_file
                else into
                / f"{package_manifest.package_id.partition('/')[2]}-{package_manifest.version}{SUFFIX}"
            )
            os.replace(Path(temporary, "whole"), target)
    except OSError as error:
        raise InvalidSpec(f"{error.filename or folder}: {error.strerror or error}") from error
    return msgspec.structs.replace(packed, file=str(target))


def _write(files: SourceTree, temporary: Path, limits: PackageLimits) -> tuple[VaiManifest, Packed]:
    """Writes the archive as `layer`, validates it, and writes the packed file as `whole`."""
    with Path(temporary, "layer").open("wb") as file:
        archive_file.write(files, archived := archive_file.HashingWriter(file))
    with archive_file.ArchiveFile(temporary / "layer", limits) as archive:
        package_manifest = validate_contents(archive, files.path)
        text = archive.read(archive.members[FILE])
    config = describe(text, TOML)
    body = document(package_manifest, config, Descriptor(ARCHIVE, archived.digest, archived.size))
    with Path(temporary, "whole").open("wb") as file:
        blobs: dict[str, bytes | Path] = {config.digest: text, archived.digest: temporary / "layer"}
        write_file(body, package_manifest.version, blobs, whole := archive_file.HashingWriter(file))
        file.flush()
        os.fsync(file.fileno())
    digest = digest_of(body)
    return package_manifest, Packed(
        "", package_manifest.package_id, package_manifest.version, digest, len(files.members), whole.size
    )


def write_file(
    body: bytes, version: str, blobs: Mapping[str, bytes | Path], out: archive_file.HashingWriter
) -> None:
    """Writes the packed file of a release, from its OCI manifest and its two blobs."""
    described = describe(body, MANIFEST, artifact_type=PACKAGE)
    index = write_index([msgspec.structs.replace(described, annotations={TAG: tag_of(version)})])
    contents: dict[str, bytes | Path] = {"index.json": index, "oci-layout": VERSION}
    for digest, content in {described.digest: body, **blobs}.items():
        contents[f"blobs/sha256/{hex_of(digest)}"] = content
    for name, content in sorted(contents.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        out.write(canonical_tar.header(ArchiveMember(name, executable=False, size=size)))
        if isinstance(content, bytes):
            out.write(content)
        else:
            with content.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
        out.write(canonical_tar.padding(size))
    out.write(canonical_tar.END)


def tag_of(version: str) -> str:
    """The tag of a version: a tag cannot contain a plus sign."""
    return version.replace("+", "_")


def misnamed(tag: str, version: str) -> bool:
    """Whether a tag is a version, but another one: a request for that version must not get this package."""
    bare = tag.removeprefix("v")
    return bare != tag_of(version) and is_semantic(bare.replace("_", "+", 1))
