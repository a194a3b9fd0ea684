"""Rate limiting with a token bucket: limits bursts and the long-term rate.

Used for notifications of a plugin (`LifecyclePolicy.max_notify_rate`, in `peer.py`), stderr (`io/stderr.py`)
and reports of dropped frames (`reporter.py`).
"""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """A token bucket: holds `size` tokens and regains `size` per second. A take that finds too few tokens is
    over the limit."""

    __slots__ = ("_overflowed", "_size", "_time", "_tokens", "_when")

    def __init__(self, size: int, time: Callable[[], float]) -> None:
        self._size = size
        self._time = time
        self._tokens = float(size)
        self._when = time()
        self._overflowed = False

    def take(self, count: int = 1) -> bool:
        """Take `count` tokens; False when there are too few. A full bucket allows any count."""
        now = self._time()
        self._tokens = min(self._size, self._tokens + (now - self._when) * self._size)
        self._when = now
        if self._tokens >= self._size:
            self._overflowed = False  # it was full again: what follows is a new burst
        if self._tokens < min(count, self._size):
            return False
        self._tokens -= count
        return True

    @property
    def overflowing(self) -> bool:
        """Whether the burst that went over the limit goes on: the bucket has not been full since."""
        return self._overflowed

    def overflows(self) -> bool:
        """Note that the limit was exceeded; whether that is the first time in this burst."""
        first = not self._overflowed
        self._overflowed = True
        return first
