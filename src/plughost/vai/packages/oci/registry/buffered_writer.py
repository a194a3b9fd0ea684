"""A double-buffered writer: receives from the network while a thread writes to the file."""

from __future__ import annotations

import asyncio
from functools import partial

from plughost._util.threads import in_thread
from plughost.vai.packages.oci.content_store import Progress
from plughost.vai.packages.oci.layout.blob_writer import BlobWriter

BUFFER_BYTES = 2 << 20
"""Bytes collected before a thread hashes and writes them, while the next ones arrive."""


class BufferedWriter:
    """Collects chunks on the event loop, and writes them in a thread at the same time."""

    def __init__(self, file: BlobWriter, progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._buffer = bytearray()
        self._writing: asyncio.Task[None] | None = None
        self._failed = False

    async def write(self, chunk: bytes) -> None:
        """Adds a chunk; waits when the thread is behind."""
        self._buffer += chunk
        if len(self._buffer) >= BUFFER_BYTES:
            await self._write()

    async def flush(self) -> None:
        """Flushes: everything received is in the file, also after a failed transfer."""
        if not self._failed and self._buffer:
            await self._write()
        await self._wait_written()

    async def _write(self) -> None:
        await self._wait_written()
        data, self._buffer = self._buffer, bytearray()
        before = self._file.offset

        async def write() -> None:
            await in_thread(partial(self._file.write, data))
            self._progress(self._file.offset - before)

        self._writing = asyncio.create_task(write())

    async def _wait_written(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                await asyncio.shield(writing)
            except BaseException:
                self._failed = True
                await asyncio.wait({writing})
                raise
