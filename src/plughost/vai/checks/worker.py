"""Worker: one worker process of the pool, asked one job at a time over non-blocking pipes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from typing import Any

import msgspec

from plughost._util.worker_process import HEADER, start
from plughost.errors import HostFailed, PluginError

PIPE = 1 << 20
"""Bytes of the pipes' buffers."""
CHUNK = 256 << 10
MAX_REPLY = 64 << 20
"""Bytes of a reply; a worker with a longer one is killed."""
REAP_EVERY = 0.05
"""Seconds between two checks of a killed worker, where its end cannot be waited for."""
Reply = tuple[dict[str, Any], memoryview]


class Worker:
    """One worker process, driven by the event loop."""

    def __init__(self, module: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = start(module)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.pid = self._process.pid
        self._pidfd = -1
        self.alive = True
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Done when the process was killed and reaped."""
        self.idle_since = 0.0
        self._to_write: deque[memoryview] = deque()
        self._done: asyncio.Future[Reply] | None = None
        self._sizes: tuple[int, int] | None = None
        self._buffer = bytearray(HEADER.size)
        self._filled = 0
        try:
            self._listen()
        except BaseException:  # no more descriptors, or no more that can be waited for
            self._end_process()
            self._reap()
            raise

    def _listen(self) -> None:
        for fd in (self._stdin, self._stdout):
            os.set_blocking(fd, False)
            try:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
            except OSError:
                pass  # this user has many pipes: a smaller one does
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._stdout, self._read)

    @property
    def busy(self) -> bool:
        """Whether it has a job."""
        return self._done is not None

    def ask(
        self, head: dict[str, Any], body: tuple[bytes | memoryview, ...], done: asyncio.Future[Reply]
    ) -> None:
        """Sends a job; the reply, or an error, goes to `done`."""
        self._done = done
        written = msgspec.json.encode(head)
        size = sum(len(part) for part in body)
        self._to_write.extend(map(memoryview, (HEADER.pack(len(written), size), written, *body)))
        try:
            self._loop.add_writer(self._stdin, self._write)
        except OSError:
            self._ended()
            return
        self._write()

    def _write(self) -> None:
        try:
            while self._to_write:
                part = self._to_write[0]
                sent = os.write(self._stdin, part[:CHUNK])
                if sent == len(part):
                    self._to_write.popleft()
                else:
                    self._to_write[0] = part[sent:]
                    return  # other callbacks run before the next chunk
        except BlockingIOError:
            return
        except OSError:
            self._ended()
            return
        self._loop.remove_writer(self._stdin)

    def _read(self) -> None:
        try:
            count = os.readv(self._stdout, [memoryview(self._buffer)[self._filled : self._filled + CHUNK]])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self._ended()
            return
        self._filled += count
        if self._filled < len(self._buffer):
            return
        if self._sizes is None:
            head, body = HEADER.unpack(self._buffer)
            if head + body > MAX_REPLY:
                self._ended()
                return
            self._sizes = head, body
            self._buffer, self._filled = bytearray(head + body), 0
            return
        view, head = memoryview(self._buffer), self._sizes[0]
        self._sizes, self._buffer, self._filled = None, bytearray(HEADER.size), 0
        done, self._done = self._done, None
        if done is not None and not done.done():
            try:
                reply = msgspec.json.decode(view[:head], type=dict[str, Any])
            except ValueError as error:
                done.set_exception(
                    HostFailed(f"a worker process replied with something other than JSON: {error}")
                )
            else:
                done.set_result((reply, view[head:]))

    def _ended(self) -> None:
        """The process ended by itself: it ran out of memory, or somebody killed it."""
        done = self._done
        self.kill()
        if done is not None and not done.done():
            done.set_exception(_worker_gone())

    def kill(self) -> None:
        """Kills the process; `gone` is done when the kernel has freed it."""
        if not self.alive:
            return
        self._end_process()
        try:
            self._loop.add_reader(self._pidfd, self._reap)  # its memory takes the kernel a moment
        except OSError:
            self._reap_when_dead()

    def _end_process(self) -> None:
        self.alive = False
        self._to_write.clear()
        self._loop.remove_reader(self._stdout)
        self._loop.remove_writer(self._stdin)
        self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _reap_when_dead(self) -> None:
        """Polls for the end of the process, where nothing reports it."""
        if self._process.poll() is None:
            self._loop.call_later(REAP_EVERY, self._reap_when_dead)
        else:
            self._reap()

    def _reap(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._process.wait()
        if not self.gone.done():
            self.gone.set_result(None)


def _worker_gone() -> PluginError:
    return HostFailed("the worker process that checked it has ended")
