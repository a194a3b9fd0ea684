"""Opens a package by the location that people write: a packed file, an OCI layout, or a registry."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from plughost._util.text import escape_controls
from plughost.errors import InvalidSpec
from plughost.vai.packages.location import LocalPath, parse_location
from plughost.vai.packages.oci.content_store import ContentStore
from plughost.vai.packages.oci.open_reference import open_content, open_layout
from plughost.vai.packages.oci.reference import REGISTRY, InRegistry
from plughost.vai.packages.pack import SUFFIX
from plughost.vai.packages.trust import signature


class PackageLocation(msgspec.Struct, frozen=True):
    """An opened location: a content store, and which package in it."""

    content: ContentStore
    name: str = ""
    """The tag or digest there; empty for the only package."""
    file: Path | None = None
    """The packed file, which must be exactly what `pack` writes."""
    beside: Path | None = None
    """The path of the signature file beside a packed file."""


@asynccontextmanager
async def open_package(reference: str, *, plain_http: bool = False) -> AsyncIterator[PackageLocation]:
    """Opens a path or a reference, as `parse_location` reads it."""
    found = parse_location(reference)
    if isinstance(found, LocalPath):
        if (here := on_disk(found.path)) is None:
            raise InvalidSpec(
                f"there is no file or folder {escape_controls(str(found.path))}",
                hint="`plughost pack DIR` makes a package; one in a registry is named HOST/REPOSITORY:TAG",
            )
        yield msgspec.structs.replace(here, name=found.digest)
        return
    if isinstance(found, InRegistry) and not found.name:
        _refuse_ambiguous(reference)
    async with open_content(found, plain_http=plain_http) as content:
        yield PackageLocation(content, found.name)


def _refuse_ambiguous(text: str) -> None:
    """Raises for a repository without a tag when a file or folder of that name exists here."""
    if not text.startswith(REGISTRY) and os.path.lexists(text):
        shown = escape_controls(text)
        raise InvalidSpec(
            f"{shown} is in the current directory, but is also the name of a repository in a registry",
            hint=f"write ./{shown} for the local one, or oci://{shown}:TAG for the one in the registry",
        )


def on_disk(path: Path) -> PackageLocation | None:
    """The package in a file or folder; None when there is nothing at that path."""
    try:
        mode = path.stat().st_mode
    except OSError:  # also for a text that cannot be a file name
        return None
    if stat.S_ISDIR(mode):
        return PackageLocation(open_layout(path))
    if stat.S_ISREG(mode):
        packed = path if path.name.endswith(SUFFIX) else None
        return PackageLocation(open_layout(path), file=packed, beside=path.with_name(signature.FILE))
    return None
