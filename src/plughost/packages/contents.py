"""From what people write to where a package is: a packed file, a layout, a registry."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from plughost.base.errors import InvalidSpec
from plughost.packages import signature
from plughost.packages.oci.content import Content
from plughost.packages.oci.opening import open_content, open_layout
from plughost.packages.oci.reference import parse_reference
from plughost.packages.packing import SUFFIX


class Place(msgspec.Struct, frozen=True):
    content: Content
    name: str = ""
    """The tag or digest there; empty means the only package."""
    file: Path | None = None
    """The one file that `pack` wrote, which must be that to the byte."""
    beside: Path | None = None
    """Where its signature is when it is a file, too."""


@asynccontextmanager
async def opened(reference: str, *, plain_http: bool = False) -> AsyncIterator[Place]:
    """A file or a folder that is there, or else a reference."""
    if (here := on_disk(Path(reference))) is not None:
        yield here
        return
    if reference.endswith(SUFFIX):
        raise InvalidSpec(f"there is no file {reference}", hint="plughost pack DIR makes a package")
    parsed = parse_reference(reference)
    async with open_content(parsed, plain_http=plain_http) as content:
        yield Place(content, parsed.name)


def on_disk(path: Path) -> Place | None:
    """None when there is nothing of that name."""
    try:
        mode = path.stat().st_mode
    except OSError:  # also one that is no file's name at all
        return None
    if stat.S_ISDIR(mode):
        return Place(open_layout(path))
    if stat.S_ISREG(mode):
        packed = path if path.name.endswith(SUFFIX) else None
        return Place(open_layout(path), file=packed, beside=path.with_name(signature.FILE))
    return None
