"""A folder becomes one file: an OCI layout in a tar that is the same to the byte wherever and whenever it is made."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from plughost.base.errors import InvalidConfig, InvalidSpec
from plughost.base.located import Problem
from plughost.contracts.vai.manifest import FILE
from plughost.packages import archive, layer
from plughost.packages.archive import Member
from plughost.packages.checks import checked
from plughost.packages.folder import listed
from plughost.packages.limits import USUAL, Limits
from plughost.packages.oci.content import MANIFEST, Descriptor
from plughost.packages.oci.digests import describe, hex_of
from plughost.packages.oci.documents import TAG, write_index
from plughost.packages.oci.layout import VERSION
from plughost.packages.release import ARCHIVE, PACKAGE, TOML, document

SUFFIX = ".vai.tar"


class Packed(msgspec.Struct, frozen=True):
    file: str
    package_id: str
    version: str
    digest: str
    files: int
    bytes: int


def pack(folder: Path, into: Path | None = None, limits: Limits = USUAL) -> Packed:
    """Write `NAME-VERSION.vai.tar` into a folder (or here), or to a file that ends so.

    InvalidConfig tells everything that keeps the folder from being a package, HoldsSecret where secrets are.
    """
    files = listed(folder, limits)
    if not any(member.name == FILE for member in files.members):
        raise InvalidConfig([Problem(str(folder), 0, "", f"there is no {FILE}, or it is excluded")])
    place = Path() if into is None else into
    is_file = place.name.endswith(SUFFIX)
    try:
        with tempfile.TemporaryDirectory(prefix=".plughost-pack-", dir=place.parent if is_file else place) as made:
            archived = Path(made, "layer")
            with archived.open("wb") as file:
                layer.write(files, out := layer.Sum(file))
            with layer.Layer(archived, limits) as inside:
                told = checked(inside, folder)
                text = inside.read(inside.members[FILE])
            config = describe(text, TOML)
            body = document(told, config, Descriptor(ARCHIVE, out.digest, out.size))
            whole = Path(made, "whole")
            with whole.open("wb") as file:
                write_file(body, told.version, {config.digest: text, out.digest: archived}, sum_ := layer.Sum(file))
            target = place if is_file else place / f"{told.package_id.partition('/')[2]}-{told.version}{SUFFIX}"
            os.replace(whole, target)
    except OSError as error:
        raise InvalidSpec(f"{error.filename or folder}: {error.strerror or error}") from error
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    return Packed(str(target), told.package_id, told.version, digest, len(files.members), sum_.size)


def write_file(body: bytes, tag: str, blobs: Mapping[str, bytes | Path], out: layer.Sum) -> None:
    """The one file of a release, from its OCI manifest and its two blobs."""
    described = describe(body, MANIFEST, artifact_type=PACKAGE)
    index = write_index([msgspec.structs.replace(described, annotations={TAG: tag})])
    contents: dict[str, bytes | Path] = {"index.json": index, "oci-layout": VERSION}
    for digest, content in {described.digest: body, **blobs}.items():
        contents[f"blobs/sha256/{hex_of(digest)}"] = content
    for name, content in sorted(contents.items()):
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        out.write(archive.header(Member(name, executable=False, size=size)))
        if isinstance(content, bytes):
            out.write(content)
        else:
            with content.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
        out.write(archive.padding(size))
    out.write(archive.END)
