"""Reads lines from stdin in a thread, for `plughost dev`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from plughost.wire.framing import Frame, FrameError, Lines

LONGEST = 1 << 20
MOST = 100
"""Maximum number of lines in progress; further ones are not read yet."""


class NextLine(Protocol):
    """A coroutine function that handles one line."""

    def __call__(self, line: str) -> Coroutine[Any, Any, None]: ...


class StdinLines:
    """Passes every line of stdin to `take`. It reads in a thread: stdin may be a file, which no event loop
    can watch."""

    def __init__(self, take: NextLine) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._slots = asyncio.Semaphore(MOST)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        threading.Thread(target=self._read, name="plughost-stdin", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots = asyncio.Semaphore(0)  # lines read from now on are not handled
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def answered(self) -> None:
        """Waits for the end of stdin, and until every line has been handled."""
        await self._ended.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _read(self) -> None:
        lines = Lines(LONGEST)
        try:
            try:
                while sys.stdin is not None and (
                    data := os.read(0, 65536)
                ):  # without stdin, descriptor 0 may be a file of ours
                    self._submit(lines.feed(data))
            except OSError:
                pass  # there is no stdin, or no longer
            self._submit(lines.end())
            self._loop.call_soon_threadsafe(self._ended.set)
        except (RuntimeError, concurrent.futures.CancelledError):
            pass  # the program has ended meanwhile

    def _submit(self, lines: list[Frame | FrameError]) -> None:
        for line in lines:
            text = "" if isinstance(line, FrameError) else line.decode(errors="replace")
            asyncio.run_coroutine_threadsafe(self._begin(text), self._loop).result()

    async def _begin(self, line: str) -> None:
        await self._slots.acquire()
        task = asyncio.create_task(self._take(line))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
