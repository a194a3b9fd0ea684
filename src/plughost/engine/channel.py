"""The bytes between us and a plugin, over two pipes.

Reading takes a bite a pass, so that no plugin holds the loop. What is urgent goes out at once, and what is
asked to; everything else that is written in one pass of the loop leaves in one write. Frames wait whole: an
urgent one is the next to begin, and none is ever cut by another.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

CHUNK = 65536
"""Larger reads cross malloc's mmap threshold and cost a map and an unmap each."""

LARGE = 4 * CHUNK
WIDE = 16 * CHUNK
"""Bytes that a pipe holds while a frame goes through it whose rest is `LARGE`."""
MOST_LEFT = 4 << 20
"""More than a pipe may hold."""
_NOTHING = memoryview(b"")

Send = Callable[[int, bytes | memoryview], int]
"""`os.write`, or something that looks on while it writes."""


class Channel(Protocol):
    """Bytes both ways; pipes, an in-memory duplex, a socket."""

    buffered: int
    """Bytes written and not yet taken by the other side."""
    bite: int
    """Bytes read at a time, and so the longest that one plugin keeps the others waiting."""

    def write(self, frame: bytes, *, urgent: bool = False) -> None: ...

    def write_now(self, frame: bytes) -> None: ...

    def write_ahead(self, frame: bytes) -> None: ...

    def cork(self) -> None: ...

    def uncork(self) -> None: ...

    def drain(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close_write(self) -> None: ...

    def close(self) -> None: ...


class PipeChannel:
    """The direct shape: non-blocking pipes watched by the loop, no transport, no thread.

    Owns both descriptors. Starts paused: nothing is read before `resume`.
    """

    __slots__ = (
        "_begun", "_closing", "_corked", "_frames", "_loop", "_narrow", "_on_broken", "_on_data", "_on_end",
        "_on_room", "_on_unwatched", "_paused", "_read_fd", "_scheduled", "_send", "_urgent", "_waiting",
        "_write_fd", "bite", "buffered",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        read_fd: int,
        write_fd: int,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_broken: Callable[[OSError], None],
        on_room: Callable[[], None],
        on_unwatched: Callable[[OSError], None] | None = None,
        send: Send = os.write,
    ) -> None:
        """`on_unwatched` is told when the loop cannot watch a pipe; without it `on_broken` is."""
        self._loop = loop
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_data = on_data
        self._on_end = on_end
        self._on_broken = on_broken
        self._on_room = on_room
        self._on_unwatched = on_unwatched or on_broken
        self._send = send
        self._frames: deque[bytes] | None = None  # made at need: an idle plugin is small
        self._urgent: deque[bytes] | None = None
        self._begun = _NOTHING
        self._scheduled = False
        self._waiting = False
        self._narrow = 0
        """What a pipe that is wide now held before."""
        self._closing = False
        self._corked = False
        self._paused = True
        self.bite = CHUNK
        self.buffered = 0

    # Reading

    def pause(self) -> None:
        """Read no more: the pipe fills up and the plugin waits."""
        if not self._paused and self._read_fd >= 0:
            self._loop.remove_reader(self._read_fd)
        self._paused = True

    def resume(self) -> None:
        if self._paused and self._read_fd >= 0:
            try:
                self._loop.add_reader(self._read_fd, self._readable)
            except OSError as error:  # the user's epoll watches are used up
                self._on_unwatched(error)
                return
        self._paused = False

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, self.bite)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:
            self._end()

    def drain(self) -> None:
        """The other side is gone: take everything that is left, to its end."""
        for _ in range(MOST_LEFT // CHUNK):  # more is written by somebody we do not know
            if self._read_fd < 0:
                return
            try:
                data = os.read(self._read_fd, CHUNK)
            except OSError:  # also: nothing now, though somebody we do not know still holds it open
                data = b""
            if data:
                self._on_data(data)
            else:
                self._end()
        if self._read_fd >= 0:
            self._end()

    def _end(self) -> None:
        self._close_read()
        self._on_end()

    def _close_read(self) -> None:
        if self._read_fd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._read_fd)
            os.close(self._read_fd)
            self._read_fd = -1

    # Writing

    def cork(self) -> None:
        """Send nothing before `uncork`: what is written meanwhile leaves in one write."""
        self._scheduled = self._corked = True

    def uncork(self) -> None:
        self._corked = False
        if self._write_fd >= 0 and not self._waiting:
            self._flush()

    def write_now(self, frame: bytes) -> None:
        """Send a frame at once if nothing else waits."""
        if self.buffered or self._corked or self._write_fd < 0:
            self.write(frame)
            return
        try:
            written = self._send(self._write_fd, frame)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._broken(error)
            return
        if written < len(frame):
            self._begun = memoryview(frame)[written:]
            self.buffered = len(self._begun)
            self._wait_for_room()

    def write(self, frame: bytes, *, urgent: bool = False) -> None:
        """Send a frame with all others of this pass; or now, ahead of all that have not begun."""
        if self._write_fd < 0:
            return
        if urgent:
            if self._urgent is None:
                self._urgent = deque()
            self._urgent.append(frame)
        else:
            if self._frames is None:
                self._frames = deque()
            self._frames.append(frame)
        self.buffered += len(frame)
        if self._waiting or self._corked:
            return
        if urgent:  # not after whatever else this pass of the loop has to do
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def write_ahead(self, frame: bytes) -> None:
        """Send a frame before all that have not begun, but after the urgent."""
        self.write(frame)
        if self._frames:
            self._frames.rotate(1)

    def _flush(self) -> None:
        self._scheduled = False
        while self.buffered:
            batch = self._next_batch()
            data = batch[0] if len(batch) == 1 else b"".join(batch)
            try:
                written = self._send(self._write_fd, data)
            except BlockingIOError:
                written = 0
            except OSError as error:
                self._broken(error)
                return
            if written == self.buffered:  # everything: no need to look at each frame
                self._forget_frames()
                break
            self._taken(written)
            if written < len(data) and not self._widen():
                self._wait_for_room()
                return
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._write_fd)
        if self._narrow and _resized(self._write_fd, self._narrow):  # not while more is in it
            self._narrow = 0
        if self._closing:
            self._close_write()
        else:
            self._on_room()

    def _next_batch(self) -> list[bytes | memoryview]:
        """What is begun, then the urgent, then the rest: about one pipe's worth."""
        batch: list[bytes | memoryview] = [self._begun] if self._begun else []
        size = len(self._begun)
        for lane in (self._urgent, self._frames):
            for frame in lane or ():
                if size >= CHUNK:
                    return batch
                batch.append(frame)
                size += len(frame)
        return batch

    def _taken(self, written: int) -> None:
        """Forget what the pipe took. Only a frame that was cut is begun; others may be overtaken."""
        self.buffered -= written
        if self._begun:
            passed = min(written, len(self._begun))
            self._begun = self._begun[passed:]
            written -= passed
        for lane in (self._urgent, self._frames):
            while lane and written:
                frame = lane.popleft()
                if written < len(frame):
                    self._begun = memoryview(frame)[written:]
                written -= min(written, len(frame))

    def _widen(self) -> bool:
        """Whether a large frame that has begun finds more room from now on: what is urgent waits for its end,
        and nothing that could be overtaken gets in between."""
        if self._narrow or len(self._begun) < LARGE:
            return False
        self._narrow = _widened(self._write_fd)
        return self._narrow > 0

    def _wait_for_room(self) -> None:
        if not self._waiting:
            self._waiting = True
            try:
                self._loop.add_writer(self._write_fd, self._flush)
            except OSError as error:
                self._on_unwatched(error)

    def _broken(self, error: OSError) -> None:
        self._close_write()
        self._on_broken(error)

    def close_write(self) -> None:
        """End the stream, after what is still to be sent."""
        self._closing = True
        if not self.buffered:
            self._close_write()

    def _close_write(self) -> None:
        if self._write_fd >= 0:
            if self._waiting and not self._loop.is_closed():
                self._loop.remove_writer(self._write_fd)
            os.close(self._write_fd)
        self._write_fd = -1
        self._waiting = False
        self._forget_frames()

    def _forget_frames(self) -> None:
        for lane in (self._urgent, self._frames):
            if lane:
                lane.clear()
        self._begun = _NOTHING
        self.buffered = 0

    def close(self) -> None:
        """Let go of both pipes now."""
        self._close_write()
        self._close_read()


def _widened(pipe: int) -> int:
    """What it held before; 0 when it is as it was, because it is wide already or may not be."""
    try:
        before = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    except (OSError, AttributeError):  # no pipe, or not Linux
        return 0
    return before if before < WIDE and _resized(pipe, WIDE) else 0


def _resized(pipe: int, size: int) -> bool:
    """Whether it holds that much now: not less than what is in it, nor more than its user's pipes may."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
    except OSError:
        return False
    return True
