"""Resumable blob writer: hashes a blob while it is written, limits its size, and resumes a cut transfer.

The file gets its name when it is complete and verified. Until then it is `NAME.partial`, locked.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plughost._util.threads import in_thread
from plughost.vai.packages.oci.content_store import Descriptor
from plughost.vai.packages.oci.errors import BadContent, TransferFailed, disk_error

CHUNK = 4 << 20
"""Bytes hashed and written at a time: large, so that thread switches do not dominate a transfer."""

_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""With O_NONBLOCK, so that a pipe in its place is an error and does not block."""

LOCK_POLL = 0.05
"""Seconds until another writer's lock is tried again: a blocking wait in a thread could not be cancelled."""


@asynccontextmanager
async def receive_blob(blob: Descriptor, into: Path) -> AsyncIterator[BlobWriter]:
    """Opens the writer of a blob, locked. It is complete already when another process has just written it."""
    file = BlobWriter(blob, into)
    try:
        while not await in_thread(file.open):  # noqa: ASYNC110 — no event tells of a file lock
            await asyncio.sleep(LOCK_POLL)
        yield file
    finally:
        file.close()


class BlobWriter:
    """Writes one blob into a file. Blocking: call everything but `offset` and `close` in a thread."""

    def __init__(self, blob: Descriptor, into: Path) -> None:
        self.blob = blob
        self.into = into
        self.partial = into.with_name(into.name + ".partial")
        self.offset = 0
        """Bytes written and hashed so far."""
        self._hash = hashlib.sha256()
        self._fd = -1
        self._owned = False
        """Whether the partial file exists, and this writer holds its lock."""

    @property
    def complete(self) -> bool:
        """Whether all bytes are there."""
        return self.offset == self.blob.size

    def open(self) -> bool:
        """Opens and locks the partial file; False while another process writes it."""
        try:
            self._fd = os.open(self.partial, _OPEN | os.O_RDWR | os.O_CREAT, 0o644)
            self._owned = self._lock()
            if not self._owned:
                self.close()
                return False
            if not self._is_complete():
                self._resume()
        except OSError as error:
            raise disk_error(error, self.partial) from error
        return True

    def write(self, data: bytes | bytearray) -> None:
        """Writes the next bytes; BadContent when there are more than the blob has."""
        if self.offset + len(data) > self.blob.size:
            self.restart()
            raise BadContent(f"{self.blob.digest}: received more than its {self.blob.size} bytes")
        with memoryview(data) as rest:
            begin = 0
            try:
                while begin < len(rest):
                    written = os.write(self._fd, rest[begin:])
                    self._hash.update(rest[begin : begin + written])
                    self.offset += written
                    begin += written
            except OSError as error:
                raise disk_error(error, self.partial) from error

    def restart(self) -> None:
        """Discards what is there, because it is not the beginning of the blob or the transfer cannot be
        resumed."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self.offset = 0

    def finish(self) -> None:
        """Renames the complete file to its final name; BadContent, and nothing is kept, when the digest is
        wrong."""
        if not self.complete:
            raise TransferFailed(f"{self.blob.digest}: received only {self.offset} of {self.blob.size} bytes")
        found = f"sha256:{self._hash.hexdigest()}"
        if found != self.blob.digest:
            self.restart()
            raise BadContent(f"expected content with digest {self.blob.digest}, got {found}")
        if self._owned:
            try:
                os.rename(self.partial, self.into)
            except OSError as error:
                raise disk_error(error, self.into) from error
            self._owned = False

    def close(self) -> None:
        """Closes and unlocks the file. Partial content stays for the next attempt; an empty file is
        removed."""
        if self._owned and self.offset == 0:
            self.partial.unlink(missing_ok=True)
        self._owned = False
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> bool:
        """Locks the file. False when another process has the lock, or has replaced the file of that name."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.lstat(self.partial), os.fstat(self._fd))
        except (BlockingIOError, FileNotFoundError):
            return False

    def _is_complete(self) -> bool:
        """Whether the complete, correct file exists under its final name."""
        try:
            fd = os.open(self.into, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if os.fstat(fd).st_size != self.blob.size:
                return False
            self._hash_file(fd)
        finally:
            os.close(fd)
        if f"sha256:{self._hash.hexdigest()}" != self.blob.digest:
            self._hash, self.offset = hashlib.sha256(), 0
            return False
        self.partial.unlink(missing_ok=True)
        self._owned = False
        return True

    def _resume(self) -> None:
        """Hashes the content that an earlier transfer has left, to resume it."""
        if os.fstat(self._fd).st_size > self.blob.size:
            self.restart()
        self._hash_file(self._fd)

    def _hash_file(self, fd: int) -> None:
        while data := os.read(fd, CHUNK):
            self._hash.update(data)
            self.offset += len(data)
