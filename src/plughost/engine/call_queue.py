"""What waits for its turn: calls, with the time that runs for them, and notifications."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator

from plughost.engine.pending_call import PendingCall
from plughost.errors import Overloaded
from plughost.wire.ledger import FOREVER


class CallQueue(OrderedDict[int, PendingCall]):
    """By number, in the order they came. An ordered one, for a plain dict is slow to lose its first."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def join(self, pending: PendingCall) -> None:
        if len(self) >= self._most:
            raise Overloaded(
                f"{len(self)} calls are waiting already", hint="call less at a time, or raise max_waiting"
            )
        self[pending.number] = pending

    def first(self) -> PendingCall | None:
        return next(iter(self.values()), None)

    def next(self, now: float) -> PendingCall | None:
        """The one whose turn it is, out of the line; from now on its time runs."""
        while self:
            _, pending = self.popitem(last=False)
            if not pending.done():
                _start_clock(pending, now)
                pending.params = pending.context = None
                return pending
        return None

    def start_clocks(self, turns: int, now: float) -> float:
        """For those whose turn it is, time runs even when nothing can be written: the process is only
        being started, or does not read. The earliest of their deadlines."""
        theirs = list(itertools.islice(self.values(), max(turns, 0)))
        for pending in theirs:
            _start_clock(pending, now)
        return min((pending.deadline for pending in theirs), default=FOREVER)


def _start_clock(pending: PendingCall, now: float) -> None:
    if pending.deadline == FOREVER and pending.timeout is not None:
        pending.deadline = now + pending.timeout


class NotificationBacklog:
    """Notifications for a process that is only being started, in their order among its calls."""

    __slots__ = ("_frames", "size")

    def __init__(self) -> None:
        self._frames: deque[tuple[int, bytes, bool]] = deque()
        self.size = 0
        """In bytes."""

    def add(self, following: int, frame: bytes, urgent: bool) -> None:
        """`following` is the number of the next call to come."""
        self._frames.append((following, frame, urgent))
        self.size += len(frame)

    def before(self, number: int | None) -> Iterator[tuple[bytes, bool]]:
        """Those that were there before the call `number`; all with None. They are no longer held."""
        while self._frames and (number is None or self._frames[0][0] <= number):
            _, frame, urgent = self._frames.popleft()
            self.size -= len(frame)
            yield frame, urgent
