"""Calls that wait for their turn, and from when their time runs."""

from __future__ import annotations

import itertools
from collections import OrderedDict

from plughost.base.errors import Overloaded
from plughost.runtime.pending import Pending
from plughost.wire.ledger import FOREVER


class Line(OrderedDict[int, Pending]):
    """By number, in the order they came. An ordered one, for a plain dict is slow to lose its first."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def join(self, pending: Pending) -> None:
        if len(self) >= self._most:
            raise Overloaded(
                f"{len(self)} calls are waiting already", hint="call less at a time, or raise max_waiting"
            )
        self[pending.number] = pending

    def first(self) -> Pending | None:
        return next(iter(self.values()), None)

    def next(self, now: float) -> Pending | None:
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


def _start_clock(pending: Pending, now: float) -> None:
    if pending.deadline == FOREVER and pending.timeout is not None:
        pending.deadline = now + pending.timeout
