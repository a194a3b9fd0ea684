"""A blob on its way into a file: hashed as it is written, bounded, and continued where it was cut.

The file gets its name when all of it is there and right. Until then it is `NAME.partial`, locked.
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
from plughost.vai.packages.oci.errors import BadContent, TransferFailed, no_room

CHUNK = 4 << 20
"""Bytes hashed and written at once: large, so that a transfer is not made of thread switches."""

_HERE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A pipe in its place is an error, and nothing to wait for."""

GLANCE = 0.05
"""Seconds until somebody else's lock is looked at again: a wait for it in a thread could not be given up."""


@asynccontextmanager
async def receive_blob(blob: Descriptor, into: Path) -> AsyncIterator[BlobWriter]:
    """The file to write to. It is complete when somebody else has just written it."""
    file = BlobWriter(blob, into)
    try:
        while not await in_thread(file.open):  # noqa: ASYNC110 — no event tells of a file lock
            await asyncio.sleep(GLANCE)
        yield file
    finally:
        file.close()


class BlobWriter:
    """Blocking: all but `offset` and `close` is for a thread."""

    def __init__(self, blob: Descriptor, into: Path) -> None:
        self.blob = blob
        self.into = into
        self.partial = into.with_name(into.name + ".partial")
        self.offset = 0
        """How many bytes are there and hashed."""
        self._hash = hashlib.sha256()
        self._fd = -1
        self._ours = False
        """Whether the partial file is there, and nobody else's."""

    @property
    def complete(self) -> bool:
        return self.offset == self.blob.size

    def open(self) -> bool:
        """False while somebody else writes it."""
        try:
            self._fd = os.open(self.partial, _HERE | os.O_RDWR | os.O_CREAT, 0o644)
            self._ours = self._lock()
            if not self._ours:
                self.close()
                return False
            if not self._is_there():
                self._take_up()
        except OSError as error:
            raise no_room(error, self.partial) from error
        return True

    def write(self, data: bytes | bytearray) -> None:
        """The next bytes; BadContent when there are more than the blob has."""
        if self.offset + len(data) > self.blob.size:
            self.restart()
            raise BadContent(f"{self.blob.digest}: more than its {self.blob.size} bytes came")
        with memoryview(data) as rest:
            begin = 0
            try:
                while begin < len(rest):
                    written = os.write(self._fd, rest[begin:])
                    self._hash.update(rest[begin : begin + written])
                    self.offset += written
                    begin += written
            except OSError as error:
                raise no_room(error, self.partial) from error

    def restart(self) -> None:
        """From nothing: what is there is no beginning of the blob, or nobody can go on from it."""
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self.offset = 0

    def finish(self) -> None:
        """Give the file its name; BadContent, and nothing left, when it is not the blob."""
        if not self.complete:
            raise TransferFailed(f"{self.blob.digest}: {self.offset} of {self.blob.size} bytes came")
        found = f"sha256:{self._hash.hexdigest()}"
        if found != self.blob.digest:
            self.restart()
            raise BadContent(f"the bytes said to be {self.blob.digest} are {found}")
        if self._ours:
            try:
                os.rename(self.partial, self.into)
            except OSError as error:
                raise no_room(error, self.into) from error
            self._ours = False

    def close(self) -> None:
        """Give the descriptor back. What has arrived stays; an empty file would help nobody."""
        if self._ours and self.offset == 0:
            self.partial.unlink(missing_ok=True)
        self._ours = False
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> bool:
        """Also whether the file that was opened is still the one of that name."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.lstat(self.partial), os.fstat(self._fd))
        except (BlockingIOError, FileNotFoundError):
            return False

    def _is_there(self) -> bool:
        """Whether the whole file has its name already."""
        try:
            fd = os.open(self.into, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            if os.fstat(fd).st_size != self.blob.size:
                return False
            self._digest(fd)
        finally:
            os.close(fd)
        if f"sha256:{self._hash.hexdigest()}" != self.blob.digest:
            self._hash, self.offset = hashlib.sha256(), 0
            return False
        self.partial.unlink(missing_ok=True)
        self._ours = False
        return True

    def _take_up(self) -> None:
        """Hash what an earlier transfer has left."""
        if os.fstat(self._fd).st_size > self.blob.size:
            self.restart()
        self._digest(self._fd)

    def _digest(self, fd: int) -> None:
        while data := os.read(fd, CHUNK):
            self._hash.update(data)
            self.offset += len(data)
