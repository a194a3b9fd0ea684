"""One worker process as its pool knows it: asked one thing at a time, over non-blocking pipes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from typing import Any

import msgspec

from plughost.base.errors import HostFailed, PluginError
from plughost.base.worker_process import SIZES, start

PIPE = 1 << 20
CHUNK = 256 << 10
MOST_REPLY = 64 << 20
REAP_EVERY = 0.05
"""Seconds between two looks at a killed worker, where its end cannot be waited for."""
Reply = tuple[dict[str, Any], memoryview]


class Worker:
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
        """Done when it is killed and nothing is left of it."""
        self.idle_since = 0.0
        self._to_write: deque[memoryview] = deque()
        self._done: asyncio.Future[Reply] | None = None
        self._sizes: tuple[int, int] | None = None
        self._buffer = bytearray(SIZES.size)
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
        return self._done is not None

    def ask(
        self, head: dict[str, Any], body: tuple[bytes | memoryview, ...], done: asyncio.Future[Reply]
    ) -> None:
        self._done = done
        written = msgspec.json.encode(head)
        size = sum(len(part) for part in body)
        self._to_write.extend(map(memoryview, (SIZES.pack(len(written), size), written, *body)))
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
                    return  # others have their turn before the next chunk
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
            head, body = SIZES.unpack(self._buffer)
            if head + body > MOST_REPLY:
                self._ended()
                return
            self._sizes = head, body
            self._buffer, self._filled = bytearray(head + body), 0
            return
        view, head = memoryview(self._buffer), self._sizes[0]
        self._sizes, self._buffer, self._filled = None, bytearray(SIZES.size), 0
        done, self._done = self._done, None
        if done is not None and not done.done():
            try:
                told = msgspec.json.decode(view[:head], type=dict[str, Any])
            except ValueError as error:
                done.set_exception(
                    HostFailed(f"a worker process replied with something else than JSON: {error}")
                )
            else:
                done.set_result((told, view[head:]))

    def _ended(self) -> None:
        """By itself: it had no more memory, or somebody killed it."""
        done = self._done
        self.kill()
        if done is not None and not done.done():
            done.set_exception(_lost())

    def kill(self) -> None:
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
        """Where nothing tells that it has ended."""
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


def _lost() -> PluginError:
    return HostFailed("the worker process that checked it has ended")
