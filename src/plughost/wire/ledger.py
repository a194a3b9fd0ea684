"""Who waits for which answer, and until when."""

from __future__ import annotations

import math
from typing import Generic, Protocol, TypeVar


class HasDeadline(Protocol):
    deadline: float


T = TypeVar("T", bound=HasDeadline)

FOREVER = math.inf


class Ledger(Generic[T]):
    """Open requests by id, in the order they were sent.

    Ids rise from `first`, so that an answer nobody waits for can be told: below `next_id` it is late
    or doubled, otherwise it was never asked for. No memory of the past is needed for that.
    """

    __slots__ = ("_first", "_open", "next_id")

    def __init__(self, first: int = 1) -> None:
        self._first = first
        self.next_id = first
        self._open: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._open)

    def mint(self) -> int:
        number = self.next_id
        self.next_id = number + 1
        return number

    def file(self, number: int, entry: T) -> None:
        """The request was sent: `entry` waits for its answer."""
        self._open[number] = entry

    def settle(self, number: int) -> T | None:
        """Who waits for this answer; None when nobody does (see `was_minted`)."""
        return self._open.pop(number, None)

    def was_minted(self, number: int) -> bool:
        return self._first <= number < self.next_id

    def oldest(self) -> T | None:
        return next(iter(self._open.values()), None)

    def entries(self) -> list[T]:
        return list(self._open.values())

    def expire(self, now: float) -> list[tuple[int, T]]:
        """Remove and return what should have been answered by `now`, oldest first."""
        late = [(number, entry) for number, entry in self._open.items() if entry.deadline <= now]
        for number, _ in late:
            del self._open[number]
        return late

    def next_deadline(self) -> float:
        return min((entry.deadline for entry in self._open.values()), default=FOREVER)

    def close(self) -> list[T]:
        """Remove and return everything that is open."""
        entries = list(self._open.values())
        self._open.clear()
        return entries
