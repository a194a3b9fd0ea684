"""Who waits for which answer, and until when."""

from __future__ import annotations

import math
from typing import Protocol, TypeVar


class HasDeadline(Protocol):
    deadline: float


T = TypeVar("T", bound=HasDeadline)

FOREVER = math.inf


class Ledger(dict[int, T]):
    """Open requests by id, in the order they were sent: file with `[]`, settle with `pop`.

    Ids rise from `first`, so that an answer nobody waits for can be told: one that was minted is late
    or doubled, another was never asked for. No memory of the past is needed for that. It is a
    dictionary, and not something that has one, because every call goes through it twice.
    """

    __slots__ = ("_first", "following")

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self._first = first
        self.following = first
        """The next number to be minted."""

    def mint(self) -> int:
        number = self.following
        self.following = number + 1
        return number

    def was_minted(self, number: int) -> bool:
        return self._first <= number < self.following

    def oldest(self) -> T | None:
        return next(iter(self.values()), None)

    def close(self) -> list[T]:
        """Remove and return everything that is open."""
        entries = list(self.values())
        self.clear()
        return entries


def expire(entries: dict[int, T], now: float) -> list[T]:
    """Remove and return what should have been done by `now`, oldest first."""
    late = [number for number, entry in entries.items() if entry.deadline <= now]
    return [entries.pop(number) for number in late]


def next_deadline(entries: dict[int, T]) -> float:
    return min((entry.deadline for entry in entries.values()), default=FOREVER)
