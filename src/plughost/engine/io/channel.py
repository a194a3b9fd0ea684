"""Channel: bytes to and from a plugin process, over two non-blocking pipes.

Each pass of the event loop reads a limited amount, so that no plugin holds the loop. Urgent frames, and calls
that are alone, are written at once; all others of one pass of the loop are joined into one write. Frames are
queued whole: an urgent frame is the next to begin, and no frame is ever cut by another.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

CHUNK = 65536
"""Bytes of one read. Larger reads cross malloc's mmap threshold and cost a map and an unmap each."""

LARGE = 4 * CHUNK
"""Bytes left of a frame for which the pipe is widened."""
WIDE_PIPE = 16 * CHUNK
"""Capacity of a pipe in bytes while the rest of a large frame goes through it."""
MAX_DRAIN = 4 << 20
"""Bytes that are read from a pipe after the exit, at most: more than a pipe can hold."""
_EMPTY = memoryview(b"")

Send = Callable[[int, bytes | memoryview], int]
"""`os.write`, or a wrapper of it such as a tap."""


class Channel(Protocol):
    """Frames to a plugin and bytes from it: over pipes, or over another link with a stream per call."""

    buffered: int
    """Bytes that were given to it and are not sent yet."""
    read_size: int
    """Bytes of one read: the smaller, the shorter one plugin keeps the others waiting."""
    reads_in_callbacks: bool
    """Whether data comes in callbacks of the event loop, never inside a task. Then the caller of an answered
    call continues at once, not in the next pass of the loop."""

    def send(self, number: int, method: str, frame: bytes, *, alone: bool, priority: bool) -> None:
        """Send a call. `alone`: no other call is open, so there is nothing to join it with. `priority`:
        before all frames that have not begun, but after urgent ones."""

    def abort(self, number: int) -> None:
        """The call is cancelled, and nobody waits for its answer: a channel with a stream per call closes
        that stream."""

    def write(self, frame: bytes, *, urgent: bool = False) -> None:
        """Send anything that is not a call: a notification, an answer, a message of the handshake."""

    def cork(self) -> None:
        """Hold back all frames until `uncork`, which sends them together."""

    def uncork(self) -> None:
        """Send the frames held back since `cork`."""

    def drain(self) -> None:
        """Take everything that has arrived, after the link has ended."""

    def pause(self) -> None:
        """Stop reading (backpressure)."""

    def resume(self) -> None:
        """Start reading, or continue after `pause`."""

    def close_write(self) -> None:
        """Tell the plugin that nothing more comes, after everything queued is sent."""

    def close(self) -> None:
        """Close it in both directions now."""


class PipeChannel:
    """A Channel over two non-blocking pipes that the event loop watches, without asyncio's transports.

    Owns both descriptors. Starts paused: nothing is read before `resume`.
    """

    reads_in_callbacks = True
    __slots__ = (
        "_closing", "_corked", "_frames", "_loop", "_on_broken", "_on_data", "_on_end", "_on_room",
        "_on_watch_failed", "_original_pipe_size", "_partial_frame", "_paused", "_read_fd", "_scheduled",
        "_send", "_urgent", "_watching_writable", "_write_fd", "buffered", "read_size",
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
        on_watch_failed: Callable[[OSError], None] | None = None,
        send: Send = os.write,
    ) -> None:
        """`on_watch_failed` is called when the loop cannot watch a pipe; default: `on_broken`."""
        self._loop = loop
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_data = on_data
        self._on_end = on_end
        self._on_broken = on_broken
        self._on_room = on_room
        self._on_watch_failed = on_watch_failed or on_broken
        self._send = send
        self._frames: deque[bytes] | None = (
            None  # created when needed, so that an idle plugin takes little memory
        )
        self._urgent: deque[bytes] | None = None
        self._partial_frame = _EMPTY
        self._scheduled = False
        self._watching_writable = False
        self._original_pipe_size = 0
        """The capacity of the pipe before it was widened; 0 when it is not."""
        self._closing = False
        self._corked = False
        self._paused = True
        self.read_size = CHUNK
        self.buffered = 0

    # Reading

    def pause(self) -> None:
        """Stop reading (backpressure): the pipe fills up and the plugin has to wait."""
        if not self._paused and self._read_fd >= 0:
            self._loop.remove_reader(self._read_fd)
        self._paused = True

    def resume(self) -> None:
        """Start reading, or continue after `pause`."""
        if self._paused and self._read_fd >= 0:
            try:
                self._loop.add_reader(self._read_fd, self._readable)
            except OSError as error:  # the user's epoll watches are used up
                self._on_watch_failed(error)
                return
        self._paused = False

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, self.read_size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        else:
            self._end()

    def drain(self) -> None:
        """Read everything that is left in the pipe, after the process has ended."""
        for _ in range(MAX_DRAIN // CHUNK):  # more comes from an unknown process that has the pipe
            if self._read_fd < 0:
                return
            try:
                data = os.read(self._read_fd, CHUNK)
            except OSError:  # also: empty, though an unknown process holds it open
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
        """Hold back all frames until `uncork`, which sends them in one write."""
        self._scheduled = self._corked = True

    def uncork(self) -> None:
        """Send the frames held back since `cork`."""
        self._corked = False
        if self._write_fd >= 0 and not self._watching_writable:
            self._flush()

    def send(self, number: int, method: str, frame: bytes, *, alone: bool, priority: bool) -> None:
        """Send a call, at once when it is `alone` and nothing is queued."""
        if not alone or self.buffered or self._corked or self._write_fd < 0:
            self.write(frame)
            if priority and self._frames:
                self._frames.rotate(1)
            return
        try:
            written = self._send(self._write_fd, frame)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._broken(error)
            return
        if written < len(frame):
            self._partial_frame = memoryview(frame)[written:]
            self.buffered = len(self._partial_frame)
            self._watch_writable()

    def write(self, frame: bytes, *, urgent: bool = False) -> None:
        """Queue a frame, to be sent with all others of this pass of the loop. An `urgent` one is sent now,
        before all frames that have not begun."""
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
        if self._watching_writable or self._corked:
            return
        if urgent:  # now, not after the other callbacks of this pass
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def abort(self, number: int) -> None:
        """Does nothing: all calls share the pipe, and the plugin learns of it from a cancel message."""

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
            if written == self.buffered:  # all frames are written: a shortcut
                self._clear_frames()
                break
            self._remove_written(written)
            if written < len(data) and not self._widen():
                self._watch_writable()
                return
        if self._watching_writable:
            self._watching_writable = False
            self._loop.remove_writer(self._write_fd)
        # Resizing fails while more bytes than that are in the pipe: then it is tried again later.
        if self._original_pipe_size and _resize_pipe(self._write_fd, self._original_pipe_size):
            self._original_pipe_size = 0
        if self._closing:
            self._close_write()
        else:
            self._on_room()

    def _next_batch(self) -> list[bytes | memoryview]:
        """The next frames to write, about one pipe's capacity: the partial frame, then urgent ones, then the
        rest."""
        batch: list[bytes | memoryview] = [self._partial_frame] if self._partial_frame else []
        size = len(self._partial_frame)
        for queue in (self._urgent, self._frames):
            for frame in queue or ():
                if size >= CHUNK:
                    return batch
                batch.append(frame)
                size += len(frame)
        return batch

    def _remove_written(self, written: int) -> None:
        """Remove written bytes from the queues. A frame that was cut must be finished first; the others can
        still be overtaken by an urgent one."""
        self.buffered -= written
        if self._partial_frame:
            done = min(written, len(self._partial_frame))
            self._partial_frame = self._partial_frame[done:]
            written -= done
        for queue in (self._urgent, self._frames):
            while queue and written:
                frame = queue.popleft()
                if written < len(frame):
                    self._partial_frame = memoryview(frame)[written:]
                written -= min(written, len(frame))

    def _widen(self) -> bool:
        """Enlarge the pipe for the rest of a large frame; whether it was enlarged. Urgent frames have to wait
        for the end of that frame, and no frame that they could overtake gets into the pipe by this."""
        if self._original_pipe_size or len(self._partial_frame) < LARGE:
            return False
        self._original_pipe_size = _widen_pipe(self._write_fd)
        return self._original_pipe_size > 0

    def _watch_writable(self) -> None:
        if not self._watching_writable:
            self._watching_writable = True
            try:
                self._loop.add_writer(self._write_fd, self._flush)
            except OSError as error:
                self._on_watch_failed(error)

    def _broken(self, error: OSError) -> None:
        self._close_write()
        self._on_broken(error)

    def close_write(self) -> None:
        """Close the write end, after all queued frames are sent."""
        self._closing = True
        if not self.buffered:
            self._close_write()

    def _close_write(self) -> None:
        if self._write_fd >= 0:
            if self._watching_writable and not self._loop.is_closed():
                self._loop.remove_writer(self._write_fd)
            os.close(self._write_fd)
        self._write_fd = -1
        self._watching_writable = False
        self._clear_frames()

    def _clear_frames(self) -> None:
        for queue in (self._urgent, self._frames):
            if queue:
                queue.clear()
        self._partial_frame = _EMPTY
        self.buffered = 0

    def close(self) -> None:
        """Close both pipes now."""
        self._close_write()
        self._close_read()


def _widen_pipe(pipe: int) -> int:
    """Enlarge a pipe: its capacity before; 0 when it was not changed."""
    try:
        before = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    except (OSError, AttributeError):  # not a pipe, or not Linux
        return 0
    return before if before < WIDE_PIPE and _resize_pipe(pipe, WIDE_PIPE) else 0


def _resize_pipe(pipe: int, size: int) -> bool:
    """Set the capacity of a pipe; False if more bytes are in it, or the user's limit for pipes is reached."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, size)
    except OSError:
        return False
    return True
