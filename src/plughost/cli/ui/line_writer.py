"""A non-blocking line writer: a thread writes, so that a reader that does not read blocks nobody."""

from __future__ import annotations

import errno
import os
import queue
import select
import threading
from collections.abc import Callable

from plughost.cli.ui.output import Line

MOST = 10_000
"""Maximum number of queued lines; further ones are dropped."""
FLUSH_TIMEOUT = 1.0
"""Seconds to flush the queue at the end."""


class LineWriter:
    """Writes lines to a descriptor. `on_broken` is called once when that is no longer possible."""

    def __init__(self, descriptor: int, on_broken: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._lines: queue.Queue[bytes | None] = queue.Queue(MOST)
        self.problem: str | None = None
        # A daemon thread: a blocked write does not delay the exit, and it holds no lock of the interpreter.
        self._thread = threading.Thread(target=self._write, name="plughost-teller", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="plughost-watcher", daemon=True).start()

    def tell(self, line: Line) -> None:
        """Queues a line; drops it when the queue is full."""
        try:
            self._lines.put_nowait(line + b"\n")
        except queue.Full:
            pass  # a reader that does not read loses lines

    def finish(self) -> bool:
        """Flushes the queue; False when not everything was written in time."""
        try:
            self._lines.put(None, timeout=FLUSH_TIMEOUT)
        except queue.Full:
            return False
        self._thread.join(FLUSH_TIMEOUT)
        return self.problem is None and not self._thread.is_alive()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError as error:
                self._break(error.strerror or str(error))
                return

    def _watch(self) -> None:
        """Waits until the reader has closed the pipe, also when there is nothing to write."""
        poll = select.poll()
        poll.register(self._descriptor, 0)
        poll.poll()
        self._break(os.strerror(errno.EPIPE))

    def _break(self, problem: str) -> None:
        if self.problem is None:
            self.problem = problem
            try:
                self._on_broken()
            except RuntimeError:
                pass  # the program has ended meanwhile
