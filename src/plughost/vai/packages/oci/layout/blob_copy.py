"""Copies a blob from a local file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from plughost._util.threads import in_thread
from plughost._util.untrusted_file import open_regular
from plughost.vai.packages.oci.content_store import Descriptor, Progress
from plughost.vai.packages.oci.errors import disk_error
from plughost.vai.packages.oci.layout.blob_writer import CHUNK, BlobWriter, receive_blob


async def copy_blob(source: Path, start: int, blob: Descriptor, into: Path, progress: Progress) -> None:
    """Copies the blob's bytes, from `start` on in `source`, into a new file, verified against the digest."""
    async with receive_blob(blob, into) as file:
        progress(file.offset)
        while moved := await in_thread(partial(_copy_chunk, source, start, file)):
            progress(moved)
        await in_thread(file.finish)


def _copy_chunk(source: Path, start: int, file: BlobWriter) -> int:
    before = file.offset
    try:
        with open_regular(source) as opened:
            opened.seek(start + before)
            data = opened.read(min(CHUNK, file.blob.size - before))
    except OSError as error:
        raise disk_error(error, source) from error
    file.write(data)
    return file.offset - before
