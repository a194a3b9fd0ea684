"""A blob out of a registry: hashed while it comes, continued where it was cut."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

import httpx

from plughost.guard.addresses import Target
from plughost.packages.oci.blobfile import BlobFile, receiving
from plughost.packages.oci.content import Descriptor, Progress
from plughost.packages.oci.errors import BadContent, TransferFailed
from plughost.packages.oci.patience import Again, pacing
from plughost.packages.oci.session import Session, lost
from plughost.packages.oci.threads import in_thread

GULP = 2 << 20
"""Bytes that are collected before a thread hashes and writes them, while the next ones come."""

_RANGE = re.compile(r"bytes ([0-9]{1,16})-[0-9]{1,16}/(?:[0-9]{1,16}|\*)")


async def download(
    session: Session, target: Target, blob: Descriptor, into: Path, progress: Progress
) -> None:
    async with receiving(blob, into) as file:
        inherited = file.offset
        progress(inherited)
        while True:
            await session.persist(partial(_some, session, target, file, progress))
            try:
                return await in_thread(file.finish)
            except BadContent:
                if not inherited:
                    raise
                inherited = 0  # what somebody had left may be what was wrong
                progress(-blob.size)


async def _some(session: Session, target: Target, file: BlobFile, progress: Progress) -> None:
    """As much of the rest as comes; Again when that is not all."""
    if file.complete:
        return
    begin = file.offset
    response = await session.open("GET", target, {"Range": f"bytes={begin}-"} if begin else {})
    try:
        if response.status_code == 416 or (response.status_code == 200 and begin):
            await in_thread(file.restart)  # it cannot go on from there
            progress(-begin)
        if response.status_code == 416:
            raise Again(TransferFailed(f"{target}: the registry has no bytes from {begin} on"))
        if response.status_code not in (200, 206):
            raise await session.refusal(response, target)
        _check_head(response, file, target)
        begin = file.offset
        try:
            async with pacing(session.patience, session.clock, str(target)) as pace:
                drain = Drain(file, progress)
                try:
                    async for chunk in response.aiter_raw():
                        pace.moved(len(chunk))
                        await drain.take(chunk)
                finally:
                    await drain.empty()
        except httpx.TransportError as error:
            raise lost(error, target) from error
        if not file.complete:
            raise Again(TransferFailed(f"{target}: cut off after {file.offset} of {file.blob.size} bytes"))
    except Again as again:
        again.gained = file.offset - begin
        raise
    finally:
        await response.aclose()


def _check_head(response: httpx.Response, file: BlobFile, target: Target) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise BadContent(f"{target}: the answer is encoded, and nobody asked for that")
    if response.status_code == 206:
        told = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if told is None or int(told[1]) != file.offset:
            raise BadContent(f"{target}: asked for bytes from {file.offset} on, and others came")
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > file.blob.size - file.offset:
        raise BadContent(f"{target}: more than the {file.blob.size} bytes of {file.blob.digest}")


class Drain:
    """Between the loop and the file: a thread writes, while the loop collects what it will write next."""

    def __init__(self, file: BlobFile, progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._collected = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._failed = False

    async def take(self, chunk: bytes) -> None:
        self._collected += chunk
        if len(self._collected) >= GULP:
            await self._write()

    async def empty(self) -> None:
        """All that has come is in the file: also when the rest will not come."""
        if not self._failed and self._collected:
            await self._write()
        await self._settle()

    async def _write(self) -> None:
        await self._settle()
        data, self._collected = self._collected, bytearray()
        before = self._file.offset

        async def write() -> None:
            await in_thread(partial(self._file.write, data))
            self._progress(self._file.offset - before)

        self._writing = asyncio.create_task(write())

    async def _settle(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                await asyncio.shield(writing)
            except BaseException:
                self._failed = True
                await asyncio.wait({writing})
                raise
