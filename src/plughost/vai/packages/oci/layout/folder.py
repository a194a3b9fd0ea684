"""An OCI image layout as a folder: `oci-layout`, `index.json`, `blobs/sha256/…`.

Files are written atomically, and only `index.json` ever changes, under a lock on the folder itself: any
number of processes may write to it at once.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from plughost._util.threads import in_thread
from plughost._util.untrusted_file import open_regular
from plughost.vai.packages.oci.content_store import MANIFEST, MAX_MANIFEST, Descriptor, Progress
from plughost.vai.packages.oci.digests import check, digest_of, hex_of, is_digest
from plughost.vai.packages.oci.errors import BadContent, NotFound, disk_error
from plughost.vai.packages.oci.layout.blob_copy import copy_blob
from plughost.vai.packages.oci.layout.index import find_manifest, find_referrers, with_entry
from plughost.vai.packages.oci.manifests import ImageIndex, read_index, read_manifest, write_index

VERSION = b'{"imageLayoutVersion":"1.0.0"}'


class LayoutFolder:
    """A layout folder; implements `ContentStore`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path_of(self, blob: Descriptor) -> Path:
        """The path of a blob, whether or not it exists."""
        return self.root / "blobs/sha256" / hex_of(blob.digest)

    async def manifest(self, reference: str) -> tuple[Descriptor, bytes]:
        return await in_thread(lambda: find_manifest(self.index(), reference, self.read, str(self.root)))

    async def fetch(self, blob: Descriptor, into: Path, progress: Progress) -> None:
        if not self.holds(blob):
            raise NotFound(f"{self.root} holds no {blob.digest} of {blob.size} bytes")
        await copy_blob(self.path_of(blob), 0, blob, into, progress)

    async def referrers(self, digest: str, artifact_type: str) -> list[Descriptor]:
        return await in_thread(lambda: find_referrers(self.index(), digest, artifact_type, self.read))

    async def push_blob(self, blob: Descriptor, source: Path | bytes, progress: Progress) -> None:
        if self.holds(blob):
            progress(blob.size)
        elif isinstance(source, bytes):
            check(source, blob.digest)
            await in_thread(self.prepare)
            await in_thread(partial(self._write, self.path_of(blob), source))
            progress(blob.size)
        else:
            await in_thread(self.prepare)
            await copy_blob(source, 0, blob, self.path_of(blob), progress)

    async def push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        return await in_thread(partial(self._push_manifest, body, media_type, reference))

    def holds(self, blob: Descriptor) -> bool:
        """Whether a blob of that size is there; its bytes are verified whenever they are read."""
        try:
            return self.path_of(blob).stat().st_size == blob.size
        except OSError:
            return False

    def index(self) -> ImageIndex:
        """The index of the layout; empty when there is none yet."""
        try:
            return read_index(_bounded(self.root / "index.json"))
        except FileNotFoundError:
            return ImageIndex(2, [])
        except OSError as error:
            raise disk_error(error, self.root) from error

    def read(self, digest: str) -> bytes:
        """The bytes of a manifest, verified."""
        try:
            body = _bounded(self.root / "blobs/sha256" / hex_of(digest))
        except FileNotFoundError:
            raise NotFound(f"{self.root} holds no {digest}") from None
        except OSError as error:
            raise disk_error(error, self.root) from error
        check(body, digest)
        return body

    def prepare(self) -> None:
        """Creates the folders and the version file of a layout."""
        try:
            (self.root / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(error, self.root) from error
        for name, content in (("oci-layout", VERSION), ("index.json", write_index([]))):
            if not (self.root / name).exists():
                self._once(self.root / name, content)

    def _push_manifest(self, body: bytes, media_type: str, reference: str | None) -> Descriptor:
        artifact_type = read_manifest(body).artifactType if media_type == MANIFEST else ""
        pushed = Descriptor(media_type, digest_of(body), len(body), artifactType=artifact_type)
        if reference is not None and is_digest(reference) and reference != pushed.digest:
            raise BadContent(f"expected the manifest {reference}, got {pushed.digest}")
        tag = None if reference is None or is_digest(reference) else reference
        self.prepare()
        if not self.holds(pushed):
            self._write(self.path_of(pushed), body)
        self._change(lambda entries: with_entry(entries, pushed, tag))
        return pushed

    def _change(self, change: Callable[[list[Descriptor]], list[Descriptor]]) -> None:
        with _locked(self.root):
            before = self.index().manifests
            after = change(before)
            if after != before:
                self._write(self.root / "index.json", write_index(after))

    def _write(self, path: Path, content: bytes) -> None:
        temporary = self._temporary(path, content)
        try:
            os.rename(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise disk_error(error, path) from error

    def _once(self, path: Path, content: bytes) -> None:
        """Writes a file unless another process was faster."""
        temporary = self._temporary(path, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise disk_error(error, path) from error
        finally:
            temporary.unlink(missing_ok=True)

    def _temporary(self, path: Path, content: bytes) -> Path:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            temporary.write_bytes(content)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise disk_error(error, path) from error
        return temporary


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _bounded(path: Path) -> bytes:
    with open_regular(path) as opened:
        return opened.read(MAX_MANIFEST + 1)
