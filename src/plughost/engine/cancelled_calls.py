"""CancelledCalls: the calls that their callers have given up, while the plugin may still work on them."""

from __future__ import annotations

_NONE: dict[int, float] = {}


class CancelledCalls:
    """Cancelled calls by number, each with the time until which the plugin must answer it. Its length is the
    number of those that are not answered.

    Abandoned calls are kept beside them: the plugin got no cancel message for them, and is busy until their
    deadlines at the latest.
    """

    __slots__ = ("_abandoned", "_answer_by", "_grace")

    def __init__(self, grace: float) -> None:
        """`grace` is the time in seconds in which the plugin must answer a cancelled call."""
        self._grace = grace
        self._answer_by = self._abandoned = _NONE  # most plugins never have any

    def __len__(self) -> int:
        return len(self._answer_by)

    def __contains__(self, number: int) -> bool:
        return number in self._answer_by

    def add(self, number: int, now: float) -> None:
        """A cancel message was sent for this call."""
        if self._answer_by is _NONE:
            self._answer_by = {}
        self._answer_by[number] = now + self._grace

    def remove(self, number: int) -> None:
        """The plugin has answered a cancelled call."""
        del self._answer_by[number]

    def first_deadline(self) -> float | None:
        """When the oldest must be answered; None when there is none. All have the same grace period."""
        return next(iter(self._answer_by.values()), None)

    def abandon(self, number: int, deadline: float) -> None:
        """The caller of this call has gone; the plugin may work on it until the deadline."""
        if self._abandoned is _NONE:
            self._abandoned = {}
        self._abandoned[number] = deadline

    def answered_late(self, number: int) -> None:
        """The plugin has answered a call that nobody waits for."""
        self._abandoned.pop(number, None)

    def busy_until(self, now: float) -> float:
        """The latest deadline of all abandoned calls; `now` when there are none."""
        self._abandoned = {number: until for number, until in self._abandoned.items() if until > now} or _NONE
        return max(self._abandoned.values(), default=now)

    def clear(self) -> None:
        """Forget all of them: the process has ended."""
        self._answer_by = self._abandoned = _NONE
