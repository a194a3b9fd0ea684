"""An OCI image layout as one tar file, for machines without a registry."""

from __future__ import annotations

import errno
import os
import secrets
from functools import partial
from pathlib import Path
from typing import BinaryIO

from plughost._util.threads import in_thread
from plughost.errors import InvalidSpec
from plughost.vai.packages.oci.content_store import MAX_MANIFEST, Descriptor, Progress
from plughost.vai.packages.oci.digests import check, hex_of
from plughost.vai.packages.oci.errors import BadContent, NoLayout, NotFound, disk_error
from plughost.vai.packages.oci.layout.blob_copy import copy_blob
from plughost.vai.packages.oci.layout.folder import VERSION, LayoutFolder
from plughost.vai.packages.oci.layout.index import find_manifest, find_referrers
from plughost.vai.packages.oci.layout.tar_headers import TarHeader, header, padding, read_members
from plughost.vai.packages.oci.manifests import TAG, ImageIndex, read_index, write_index


class LayoutTar:
    """A read-only layout in a tar; implements `ContentStore`. `write_tar` creates one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: dict[str, TarHeader] | None = None

    async def manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        return await in_thread(
            lambda: find_manifest(self._index(), reference, self._manifest, str(self.path))
        )

    async def fetch(self, blob: Descriptor, into: Path, progress: Progress) -> None:
        member = await in_thread(partial(self._blob, blob.digest))
        if member.size != blob.size:
            raise BadContent(f"{self.path}: {blob.digest} has {member.size} bytes, not {blob.size}")
        await copy_blob(self.path, member.start, blob, into, progress)

    async def referrers(self, digest: str, artifact_type: str) -> list[Descriptor]:
        return await in_thread(lambda: find_referrers(self._index(), digest, artifact_type, self._manifest))

    async def push_blob(self, blob: Descriptor, source: Path | bytes, progress: Progress) -> None:
        raise self._read_only_error()

    async def push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        raise self._read_only_error()

    def _read_only_error(self) -> InvalidSpec:
        return InvalidSpec(f"{self.path} is complete and cannot be changed")

    def _index(self) -> ImageIndex:
        return read_index(self._read(self._member("index.json")))

    def _manifest(self, digest: str) -> bytes:
        body = self._read(self._blob(digest))
        check(body, digest)
        return body

    def _blob(self, digest: str) -> TarHeader:
        return self._member(f"blobs/sha256/{hex_of(digest)}")

    def _member(self, name: str) -> TarHeader:
        if self._members is None:
            self._members = self._list()
        try:
            return self._members[name]
        except KeyError:
            raise NotFound(f"{self.path} holds no {name}") from None

    def _list(self) -> dict[str, TarHeader]:
        found: dict[str, TarHeader] = {}
        try:
            with self.path.open("rb") as opened:
                for member in read_members(opened, self.path):
                    name = member.name.removeprefix("./")
                    if name in found:
                        raise BadContent(f"{self.path}: {name[:100]!a} is in it twice")
                    found[name] = member
        except OSError as error:
            raise disk_error(error, self.path) from error
        except BadContent as error:
            if not found:
                raise NoLayout(error.message) from error
            raise
        if "oci-layout" not in found:
            raise NoLayout(f"{self.path} is not an OCI layout: it has no oci-layout file")
        return found

    def _read(self, member: TarHeader) -> bytes:
        if member.size > MAX_MANIFEST:
            raise BadContent(f"{self.path}: {member.name} has more than {MAX_MANIFEST >> 20} MiB")
        try:
            with self.path.open("rb") as opened:
                opened.seek(member.start)
                return opened.read(member.size)
        except OSError as error:
            raise disk_error(error, self.path) from error


def write_tar(layout: LayoutFolder, into: Path) -> None:
    """Writes a layout as a tar, atomically; equal content gives equal bytes. Blocking."""
    temporary = into.with_name(f".{into.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as out:
            _add(out, "oci-layout", VERSION)
            _add(out, "index.json", write_index(sorted(layout.index().manifests, key=_sort_key)))
            for blob in sorted((layout.root / "blobs/sha256").iterdir()):
                if not blob.name.startswith(".") and not blob.name.endswith(".partial"):
                    _add_file(out, f"blobs/sha256/{blob.name}", blob)
            out.write(bytes(1024))
        os.rename(temporary, into)
    except OSError as error:
        raise disk_error(error, into) from error
    finally:
        temporary.unlink(missing_ok=True)


def _add(out: BinaryIO, name: str, content: bytes) -> None:
    out.write(header(name, len(content)) + content + padding(len(content)))


def _add_file(out: BinaryIO, name: str, path: Path) -> None:
    with path.open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        out.write(header(name, size))
        out.flush()
        sent = 0
        while moved := os.sendfile(out.fileno(), opened.fileno(), sent, size - sent):  # the kernel copies
            sent += moved
        if sent != size:
            raise OSError(errno.EIO, f"{path} was truncated while it was read")
        out.seek(0, os.SEEK_END)
        out.write(padding(size))


def _sort_key(entry: Descriptor) -> tuple[bool, str, str]:
    """Sort key of the index: tagged entries first, whatever the order of pushing."""
    tag = entry.annotations.get(TAG, "")
    return not tag, tag, entry.digest
