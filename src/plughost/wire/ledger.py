"""Ledger: the open requests by id, and their deadlines."""

from __future__ import annotations

import math
from typing import Protocol, TypeVar


class HasDeadline(Protocol):
    """An entry of the ledger; `deadline` is a time of the clock."""

    deadline: float


T = TypeVar("T", bound=HasDeadline)

FOREVER = math.inf
"""The deadline of an entry that has none."""


class Ledger(dict[int, T]):
    """The open requests by id, in the order they were sent: add with `[]`, remove with `pop`.

    Ids rise from `first`. So an answer to a request that is not open can be classified without remembering
    old ids: an id that was minted is late or duplicate, any other was never asked for. It is a dictionary,
    and does not contain one, because every call goes through it twice.
    """

    __slots__ = ("_first", "following")

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self._first = first
        self.following = first
        """The next id."""

    def mint(self) -> int:
        """A new id."""
        number = self.following
        self.following = number + 1
        return number

    def was_minted(self, number: int) -> bool:
        """Whether this id was ever used by us."""
        return self._first <= number < self.following

    def oldest(self) -> T | None:
        """The open request that was sent first."""
        return next(iter(self.values()), None)

    def close(self) -> list[T]:
        """Remove and return all open requests."""
        entries = list(self.values())
        self.clear()
        return entries


def expire(entries: dict[int, T], now: float) -> list[T]:
    """Remove and return the entries whose deadline has passed, oldest first."""
    late = [number for number, entry in entries.items() if entry.deadline <= now]
    return [entries.pop(number) for number in late]


def next_deadline(entries: dict[int, T]) -> float:
    """The earliest deadline; FOREVER when there is none."""
    return min((entry.deadline for entry in entries.values()), default=FOREVER)
