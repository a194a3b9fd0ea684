"""A bucket of tokens: how much may come at once, and how much for ever."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Holds `size` tokens and gains as many a second. What comes while it is empty is too much."""

    __slots__ = ("_overflowed", "_size", "_time", "_tokens", "_when")

    def __init__(self, size: int, time: Callable[[], float]) -> None:
        self._size = size
        self._time = time
        self._tokens = float(size)
        self._when = time()
        self._overflowed = False

    def take(self, count: int = 1) -> bool:
        """Whether there was a token left, or `count`; a full bucket has enough for any."""
        now = self._time()
        self._tokens = min(self._size, self._tokens + (now - self._when) * self._size)
        self._when = now
        if self._tokens >= self._size:
            self._overflowed = False  # it was full again: what may follow is another burst
        if self._tokens < min(count, self._size):
            return False
        self._tokens -= count
        return True

    @property
    def overflowing(self) -> bool:
        """Whether the burst that was too much goes on: the bucket has not been full again since."""
        return self._overflowed

    def overflows(self) -> bool:
        """Whether this is the first of its burst that was too much."""
        first = not self._overflowed
        self._overflowed = True
        return first
