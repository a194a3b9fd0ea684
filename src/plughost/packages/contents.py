"""From what people write to where a package is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.packages import signature
from plughost.packages.oci.content import Content
from plughost.packages.oci.layout import LayoutFolder
from plughost.packages.oci.layout_tar import LayoutTar
from plughost.packages.packing import SUFFIX


class Place(msgspec.Struct, frozen=True):
    content: Content
    name: str = ""
    """The tag or digest there; empty means the only package."""
    file: Path | None = None
    """The one file that `pack` wrote, which must be that to the byte."""
    beside: Path | None = None
    """Where its signature is when it is a file, too."""


def open_content(reference: str) -> Place:
    """A packed file, or an OCI layout in a folder or a tar."""
    path = Path(reference)
    if path.is_dir():
        return Place(LayoutFolder(path))
    if path.is_file():
        packed = path if path.name.endswith(SUFFIX) else None
        return Place(LayoutTar(path), file=packed, beside=path.with_name(signature.FILE))
    raise InvalidSpec(f"there is no file or folder {reference}", hint="plughost pack DIR makes a package")
