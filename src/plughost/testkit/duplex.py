"""Bytes between two threads, as a pipe carries them, and what can go wrong with them on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

Fault = Callable[[bytes], list[bytes | None]]
"""What becomes of a write: the pieces that arrive, in order; None among them ends the stream."""


class MemoryPipe:
    """One way. `fault` may drop, garble, split or end what is written."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._pieces: list[bytes] = []
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
                self._pieces.append(piece)
            self._changed.notify_all()
        return len(data)

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """What is there, as soon as something is; nothing at the end. TimeoutError when it takes too long."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._pieces and not self._closed:
                left = None if end is None else end - time.monotonic()
                if (left is not None and left <= 0) or not self._changed.wait(left):
                    raise TimeoutError
            if not self._pieces:
                return b""
            piece = self._pieces.pop(0)
            if len(piece) > size:
                self._pieces.insert(0, piece[size:])
            return piece[:size]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def split(size: int) -> Fault:
    """Everything arrives in pieces of so many bytes."""
    return lambda data: [data[at : at + size] for at in range(0, len(data), size)]


def drop(nth: int) -> Fault:
    """The nth write (from 1) is lost."""
    return _at(nth, lambda data: [])


def garble(nth: int) -> Fault:
    """Every byte of the nth write but its last is another one."""
    return _at(nth, lambda data: [bytes(byte ^ 0x55 for byte in data[:-1]) + data[-1:]])


def cut(nth: int, keep: int = 1) -> Fault:
    """Of the nth write only the first bytes arrive, and then the stream ends."""
    return _at(nth, lambda data: [data[:keep], None])


def delay(seconds: float) -> Fault:
    """Everything arrives that much later."""

    def late(data: bytes) -> list[bytes | None]:
        time.sleep(seconds)
        return [data]

    return late


def _at(nth: int, fault: Fault) -> Fault:
    count = 0

    def counted(data: bytes) -> list[bytes | None]:
        nonlocal count
        count += 1
        return fault(data) if count == nth else [data]

    return counted
