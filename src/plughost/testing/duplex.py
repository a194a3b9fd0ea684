"""In-memory pipes between two threads, with fault injection: delayed, dropped, garbled or split writes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from plughost.testing.clock import VirtualClock


class Late(NamedTuple):
    """A piece that arrives `seconds` later."""

    seconds: float
    data: bytes


Fault = Callable[[bytes], list[bytes | Late | None]]
"""Maps a write to the pieces that arrive, in order; None among them ends the stream."""

_passing = threading.Lock()
"""Held while the clock is advanced: only one thread may do so at a time."""


class MemoryPipe:
    """A pipe in one direction. `fault` may delay, drop, garble, split or end what is written.

    Delays use the virtual clock, which a reader advances when it waits for a late piece: nothing waits in
    real time.
    """

    def __init__(self, fault: Fault | None = None, clock: VirtualClock | None = None) -> None:
        self._clock = clock or VirtualClock()
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.fault = fault

    def write(self, data: bytes | memoryview) -> int:
        with self._changed:
            if self._closed:
                raise BrokenPipeError("the other side is closed")
            for piece in [bytes(data)] if self.fault is None else self.fault(bytes(data)):
                if piece is None:
                    self._closed = True
                    break
                seconds, arriving = piece if isinstance(piece, Late) else (0.0, piece)
                self._pieces.append((self._clock.time() + seconds, arriving))
            self._changed.notify_all()
        return len(data)

    def read(self, size: int, timeout: float | None = None, deadline: float | None = None) -> bytes:
        """Reads what is available, waiting until something is; b"" at the end. Raises TimeoutError after
        `timeout` real seconds, or at `deadline` by the clock."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._pieces and not self._closed:
                left = None if end is None else end - time.monotonic()
                if (left is not None and left <= 0) or not self._changed.wait(left):
                    raise TimeoutError
            if not self._pieces:
                return b""
            when, piece = self._pieces[0]
            if deadline is not None and when > deadline:
                self._pass_until(deadline)
                raise TimeoutError
            self._pass_until(when)
            self._pieces.popleft()
            if len(piece) > size:
                self._pieces.appendleft((when, piece[size:]))
            return piece[:size]

    def _pass_until(self, when: float) -> None:
        with _passing:
            self._clock.advance(max(0.0, when - self._clock.time()))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def split(size: int) -> Fault:
    """A fault: writes arrive in pieces of `size` bytes."""
    return lambda data: [data[at : at + size] for at in range(0, len(data), size)]


def drop(nth: int) -> Fault:
    """A fault: the nth write (from 1) is lost."""
    return _at(nth, lambda data: [])


def garble(nth: int) -> Fault:
    """A fault: every byte of the nth write except the last is changed."""
    return _at(nth, lambda data: [bytes(byte ^ 0x55 for byte in data[:-1]) + data[-1:]])


def cut(nth: int, keep: int = 1) -> Fault:
    """A fault: only the first `keep` bytes of the nth write arrive, and then the stream ends."""
    return _at(nth, lambda data: [data[:keep], None])


def delay(seconds: float) -> Fault:
    """A fault: everything arrives that many seconds later, by the test's clock."""
    return lambda data: [Late(seconds, data)]


def _at(nth: int, fault: Fault) -> Fault:
    """Applies a fault to the nth write only."""
    count = 0

    def counted(data: bytes) -> list[bytes | Late | None]:
        nonlocal count
        count += 1
        return fault(data) if count == nth else [data]

    return counted
