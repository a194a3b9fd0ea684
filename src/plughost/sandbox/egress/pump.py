"""Pumps bytes from one socket to another through one small buffer: what the target does not take is not read.

Everything happens in callbacks of the event loop, one buffer at a time, so that a fast flow leaves time for
others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BUFFER = 64 << 10
SCREENED = 16 << 10
"""Bytes at a time that go through a filter: other work waits meanwhile."""


class SourceBroken(Exception):
    """The source can no longer be read."""


class TargetBroken(Exception):
    """The target can no longer be written."""


class Pump:
    """One direction of a tunnel. `spend` is called with the number of bytes before they are passed on; an
    exception from it ends the flow. `on_bytes` is called with the bytes."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        spend: Callable[[int], None],
        on_bytes: Callable[[memoryview], None] | None = None,
    ) -> None:
        self.bytes = 0
        self._source = source
        self._target = target
        self._spend = spend
        self._on_bytes = on_bytes
        self.byte_filter: Callable[[bytes], bytes] | None = None
        """A filter: returns which of the bytes may be passed on. An exception from it ends the flow."""
        self._loop = asyncio.get_running_loop()
        self.moved = self._loop.time()
        """When the last byte came or went."""
        self._rest = memoryview(b"")
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def run(self, first: bytes) -> None:
        """Pass on `first`, and then everything from the source until its end. The target is not shut down."""
        self._buffer = memoryview(bytearray(BUFFER if self.byte_filter is None else SCREENED))
        try:
            self._loop.add_reader(self._source, self._read)
            if first:
                self._pass(memoryview(first))
            await self._ended
        finally:
            self._loop.remove_reader(self._source)
            self._loop.remove_writer(self._target)

    async def send(self, data: bytes) -> None:
        """Pass these bytes on before `run`."""
        self.bytes += len(data)
        self._spend(len(data))
        try:
            await self._loop.sock_sendall(self._target, data)
        except OSError:
            raise TargetBroken from None
        self.moved = self._loop.time()

    def _read(self) -> None:
        try:
            count = self._source.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._end(SourceBroken())
            return
        if count:
            self._pass(self._buffer[:count])
        else:
            self._end(None)

    def _pass(self, data: memoryview) -> None:
        self.moved = self._loop.time()
        try:
            if self.byte_filter is not None:
                data = memoryview(self.byte_filter(bytes(data)))
            self.bytes += len(data)
            self._spend(len(data))
        except Exception as error:
            self._end(error)
            return
        if self._on_bytes is not None:
            self._on_bytes(data)
        self._rest = data
        if not self._write() and not self._ended.done():
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._target, self._writable)

    def _writable(self) -> None:
        self.moved = self._loop.time()
        if self._write():
            self._loop.remove_writer(self._target)
            self._loop.add_reader(self._source, self._read)

    def _write(self) -> bool:
        """Returns whether nothing is left to write."""
        try:
            self._rest = self._rest[self._target.send(self._rest) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._end(TargetBroken())
        return not self._rest

    def _end(self, error: Exception | None) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
