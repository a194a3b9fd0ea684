"""A call that waits for its turn, or for its answer; the future that its caller awaits.

An ordinary future schedules its callbacks: the loop goes round once more, through the selector, before
the caller continues. For a call that is all there is to do, that round is a good part of its price. So
`settle` runs the waiting task's next step right away. It is for the end of a loop callback only, when
the caller's code may do anything to the plugin without disturbing whoever settles. Whatever else ends
the future (an error, a cancellation) goes the ordinary way.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any

from plughost.engine.progress import OnEvent, ProgressBudget
from plughost.errors import PluginError
from plughost.wire.messages import Response

Waiter = Callable[[Any], object]

_set_result = asyncio.Future.set_result
_add_done_callback = asyncio.Future.add_done_callback


class PendingCall(asyncio.Future[Response]):
    """Made by `file`: a constructor in Python would be felt in every call."""

    __slots__ = (
        "_context", "_waiter", "answer", "context", "deadline", "frame", "listener", "method", "number",
        "on_event", "owner", "params", "timeout",
    )  # fmt: skip

    number: int
    method: str
    frame: bytes
    """What is to be written; empty once it was."""
    timeout: float | None
    deadline: float
    params: Any
    """Set only while it waits, with `context`, for an instance that may take it over."""
    context: Mapping[str, str] | None
    answer: Response
    """Set before `settle`."""
    on_event: OnEvent | None
    """Told what it says before its answer."""
    listener: ProgressBudget
    """Set only when it says something before its answer."""
    owner: Any
    """Whose it is now: a call that waits may move to another instance."""

    _waiter: Waiter | None
    _context: contextvars.Context | None

    def fill(
        self, owner: Any, number: int, method: str, frame: bytes, timeout: float | None, deadline: float
    ) -> None:
        """Fill it in; the first thing that happens to it."""
        self.owner = owner
        self.number = number
        self.method = method
        self.frame = frame
        self.timeout = timeout
        self.deadline = deadline
        self.on_event = self._waiter = None

    def resolve_now(self) -> None:
        """Give the caller its answer and let it run now."""
        if self.done():
            return
        waiter = self._waiter
        self._waiter = None
        _set_result(self, self.answer)
        if waiter is not None:
            if self._context is None:
                waiter(self)
            else:
                self._context.run(waiter, self)

    def fail(self, error: PluginError) -> None:
        if not self.done():
            self.set_exception(error)

    def add_done_callback(self, fn: Waiter, *, context: contextvars.Context | None = None) -> None:
        if self._waiter is None and not self.done():
            self._waiter = fn
            self._context = context
        else:
            _add_done_callback(self, fn, context=context)

    def remove_done_callback(self, fn: Waiter) -> int:
        if self._waiter == fn:
            self._waiter = None
            return 1
        return super().remove_done_callback(fn)

    def set_result(self, result: Response) -> None:
        self._leave_to_the_loop()
        super().set_result(result)

    def set_exception(self, exception: Any) -> None:
        self._leave_to_the_loop()
        super().set_exception(exception)

    def cancel(self, msg: Any | None = None) -> bool:
        self._leave_to_the_loop()
        return super().cancel(msg)

    def _leave_to_the_loop(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            _add_done_callback(self, waiter, context=self._context)
