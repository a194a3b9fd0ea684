"""Opens the content store that a reference names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import ContentStore
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.layout.tar_file import LayoutTar
from plughost.vai.packages.oci.reference import InRegistry, Reference, parse_reference


@asynccontextmanager
async def open_content(
    reference: str | Reference, *, plain_http: bool = False, create: bool = False
) -> AsyncIterator[ContentStore]:
    """Opens a layout or registry for the duration of the block; ask it for `reference.name`.

    With `create`, a layout that does not exist is created as a folder by the first push.
    """
    parsed = parse_reference(reference) if isinstance(reference, str) else reference
    if isinstance(parsed, InRegistry):
        from plughost.vai.packages.oci.registry.repository import open_registry

        async with open_registry(parsed, plain_http=plain_http) as registry:
            yield registry
    elif create and not parsed.path.exists():
        yield LayoutFolder(parsed.path)
    else:
        yield open_layout(parsed.path)


def open_layout(path: Path) -> ContentStore:
    """Opens an existing layout: a folder, or a tar."""
    if (path / "oci-layout").is_file():
        return LayoutFolder(path)
    if path.is_file():
        return LayoutTar(path)
    raise InvalidSpec(f"{path} is not an OCI layout: neither a folder with an oci-layout file nor a tar")
