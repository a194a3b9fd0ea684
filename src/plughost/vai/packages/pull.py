"""Pulls a package from a registry into the file that was packed, with its signature beside it."""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from plughost._util.threads import in_thread
from plughost.errors import InvalidSpec, PluginError
from plughost.vai.packages.archive.archive_file import HashingWriter
from plughost.vai.packages.fetch import PackageMetadata, fetch_metadata
from plughost.vai.packages.locate import PackageLocation
from plughost.vai.packages.oci.content_store import ContentStore, Watch
from plughost.vai.packages.oci.copy_artifact import copy
from plughost.vai.packages.oci.digests import digest_of, hex_of
from plughost.vai.packages.oci.errors import BadContent, TransferFailed, disk_error
from plughost.vai.packages.oci.layout.folder import LayoutFolder
from plughost.vai.packages.oci.layout.tar_file import write_tar
from plughost.vai.packages.oci.open_reference import open_content
from plughost.vai.packages.oci.reference import LAYOUT, InLayout, Reference, parse_reference
from plughost.vai.packages.pack import SUFFIX, misnamed, write_file
from plughost.vai.packages.release import SIGNATURE, Release
from plughost.vai.packages.trust import signature
from plughost.vai.packages.trust.publishers import TrustedPublishers

WHOLE = "whole"
"""The temporary name of the file."""
_HINT = "keep each package in a folder of its own"


class Pulled(msgspec.Struct, frozen=True):
    """A pulled release, its file, and the digests of its signatures."""

    release: Release
    file: str
    signatures: list[str]


async def pull(
    source: Reference,
    output: str,
    watch: Watch,
    trust: TrustedPublishers | None = None,
    *,
    plain_http: bool = False,
) -> Pulled:
    """Pulls into a file, into a folder, or into an OCI layout (`oci-layout:PATH[:TAG]`).

    A `*.vai.tar` is the file as it was packed, and the signature with the best verdict by `trust` is put
    beside it. Any other file is an OCI layout in a tar, with all signatures in it.
    """
    async with open_content(source, plain_http=plain_http) as content:
        if output.startswith(LAYOUT):
            return await _into_layout(content, source, output, watch)
        found, _ = await content.manifest(source.name)
        with _partial_layout(Path(output), found.digest) as layout:
            tag = source.tag or None
            copied = await copy(found.digest, content, layout, tag, watch, signatures=SIGNATURE)
            named = PackageLocation(layout, source.name or found.digest)
            metadata = await fetch_metadata(named, layout.root, trust or TrustedPublishers())
            file = await in_thread(partial(_write_files, metadata, layout, Path(output)))
    return Pulled(metadata.release, str(file), copied.referrers)


async def _into_layout(content: ContentStore, source: Reference, output: str, watch: Watch) -> Pulled:
    target = parse_reference(output)
    assert isinstance(target, InLayout)
    tag = target.tag or source.tag
    with tempfile.TemporaryDirectory(prefix="plughost-pull-") as folder:
        metadata = await fetch_metadata(
            PackageLocation(content, source.name), Path(folder), TrustedPublishers()
        )
    if misnamed(tag, metadata.release.version):
        raise InvalidSpec(f"{tag} is not the version of {metadata.release}")
    layout = LayoutFolder(target.path)
    copied = await copy(metadata.release.digest, content, layout, tag or None, watch, signatures=SIGNATURE)
    return Pulled(metadata.release, str(target.path), copied.referrers)


@contextmanager
def _partial_layout(output: Path, digest: str) -> Iterator[LayoutFolder]:
    """A temporary layout for one pull, locked, on the disk of the target file and with the same name for
    every attempt.

    After a failure it stays for the next attempt, which resumes the transfer, unless its content is useless.
    """
    parent = output if output.is_dir() else output.parent
    if not parent.is_dir():
        raise InvalidSpec(f"there is no folder {parent}")
    layout = LayoutFolder(parent / f".plughost-pull-{hex_of(digest)[:16]}")
    _refuse_foreign(layout.root)
    layout.prepare()
    lock = os.open(layout.root / "blobs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(lock, parent)
        try:
            yield layout
        except (TransferFailed, OSError) as error:
            (layout.root / WHOLE).unlink(missing_ok=True)  # frees space, and is quickly rebuilt
            arrived = any(path.stat().st_size for path in layout.root.glob("blobs/sha256/*"))
            if isinstance(error, BadContent) or not arrived:
                shutil.rmtree(layout.root, ignore_errors=True)
            if isinstance(error, OSError):
                raise disk_error(error, output) from error
            raise
        except PluginError:
            shutil.rmtree(layout.root, ignore_errors=True)
            raise
        shutil.rmtree(layout.root, ignore_errors=True)
    finally:
        os.close(lock)


def _refuse_foreign(folder: Path) -> None:
    """Raises unless only this user can write to the folder. Where others can write, too, they know its name
    and could create it first."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise disk_error(error, folder) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise InvalidSpec(f"{folder} is not a folder that only this user can write to", hint="remove it")


def _lock(lock: int, parent: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InvalidSpec(f"another process is pulling it to {parent}") from None


def _write_files(metadata: PackageMetadata, layout: LayoutFolder, output: Path) -> Path:
    """Writes the file and its signature in their places; refuses to overwrite other content."""
    if output.is_dir():
        output = (
            output / f"{metadata.release.package_id.partition('/')[2]}-{metadata.release.version}{SUFFIX}"
        )
    targets = {layout.root / WHOLE: output}
    if not output.name.endswith(SUFFIX):
        write_tar(layout, layout.root / WHOLE)
    else:
        archived, beside = layout.path_of(metadata.layer), output.with_name(signature.FILE)
        with (layout.root / WHOLE).open("wb") as file:
            blobs: dict[str, bytes | Path] = {
                digest_of(metadata.text): metadata.text,
                metadata.layer.digest: archived,
            }
            write_file(metadata.body, metadata.release.version, blobs, HashingWriter(file))
        if metadata.envelope is not None:
            (layout.root / "signature").write_bytes(metadata.envelope)
            targets = {layout.root / "signature": beside, **targets}
        elif beside.exists():
            raise InvalidSpec(f"{beside} exists, but {metadata.release} has no signature", hint=_HINT)
    for temporary, path in targets.items():
        if path.exists() and not filecmp.cmp(temporary, path, shallow=False):
            raise InvalidSpec(f"{path} already exists with different contents", hint=_HINT)
    for temporary, path in targets.items():
        os.replace(temporary, path)
    return output
