"""Queues of a peer: calls that wait to be sent, with their deadlines, and held back notifications."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator

from plughost.engine.pending_call import PendingCall
from plughost.errors import Overloaded
from plughost.wire.ledger import FOREVER


class CallQueue(OrderedDict[int, PendingCall]):
    """The queue of calls that wait to be sent, by number and in order. It is an OrderedDict, because removing
    the first entry of a plain dict is slow."""

    __slots__ = ("_limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def join(self, pending: PendingCall) -> None:
        """Add a call at the end; raises Overloaded when the queue is full."""
        if len(self) >= self._limit:
            raise Overloaded(
                f"{len(self)} calls are waiting already",
                hint="make fewer calls at once, or raise max_waiting",
            )
        self[pending.number] = pending

    def first(self) -> PendingCall | None:
        """The next call, which stays in the queue."""
        return next(iter(self.values()), None)

    def next(self, now: float) -> PendingCall | None:
        """Remove and return the next call that is not done; its timeout starts now, if it has not started."""
        while self:
            _, pending = self.popitem(last=False)
            if not pending.done():
                _start_timeout(pending, now)
                pending.params = pending.context = None
                return pending
        return None

    def start_timeouts(self, turns: int, now: float) -> float:
        """Start the timeouts of the next `turns` calls. Their time runs even while nothing can be written,
        because the process is still starting or does not read. Returns the earliest of their deadlines."""
        next_calls = list(itertools.islice(self.values(), max(turns, 0)))
        for pending in next_calls:
            _start_timeout(pending, now)
        return min((pending.deadline for pending in next_calls), default=FOREVER)


def _start_timeout(pending: PendingCall, now: float) -> None:
    if pending.deadline == FOREVER and pending.timeout is not None:
        pending.deadline = now + pending.timeout


class NotificationBacklog:
    """Notifications held back for a process that is still starting, in their order among its calls."""

    __slots__ = ("_frames", "size")

    def __init__(self) -> None:
        self._frames: deque[tuple[int, bytes, bool]] = deque()
        self.size = 0
        """Bytes of all frames."""

    def add(self, next_number: int, frame: bytes, urgent: bool) -> None:
        """Hold back a frame; `next_number` is the number of the next call."""
        self._frames.append((next_number, frame, urgent))
        self.size += len(frame)

    def before(self, number: int | None) -> Iterator[tuple[bytes, bool]]:
        """Remove and return the frames that came before the call `number`; all of them with None."""
        while self._frames and (number is None or self._frames[0][0] <= number):
            _, frame, urgent = self._frames.popleft()
            self.size -= len(frame)
            yield frame, urgent
