"""PendingCall: the future of a call that waits to be sent or to be answered.

An ordinary future schedules its callbacks: the loop goes round once more, through the selector, before
the caller continues. When one call is all there is to do, that round is a good part of its cost. So
`resolve_now` runs the waiting task's next step right away. It may be used only at the end of a loop callback,
when the caller's code may do anything to the plugin without disturbing the code that resolves the call.
Everything else that ends the future (an error, a cancellation) takes the ordinary path.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from plughost.engine.progress import OnEvent, ProgressBudget
from plughost.errors import Malformed, PluginError
from plughost.wire.messages import Response

Waiter = Callable[[Any], object]

_set_result = asyncio.Future.set_result
_add_done_callback = asyncio.Future.add_done_callback


class CallOwner(Protocol):
    """The instance that has a call, as the caller's side of the call sees it."""

    def withdraw(self, pending: PendingCall, reason: str) -> None:
        """Cancel a call whose caller has gone."""

    def failure(self, pending: PendingCall, answer: Response) -> PluginError:
        """The plugin's own error in an answer, as an exception."""

    def undecodable(self, error: Malformed) -> PluginError:
        """The error of a result that cannot be decoded as the type that was asked for."""


class PendingCall(asyncio.Future[Response]):
    """A call and the future of its response. Initialised by `fill`: a constructor in Python would slow down
    every call."""

    __slots__ = (
        "_context", "_waiter", "answer", "began", "context", "deadline", "frame", "listener", "method",
        "number", "on_event", "owner", "params", "timeout",
    )  # fmt: skip

    number: int
    method: str
    frame: bytes
    """The encoded request; empty once it is written."""
    timeout: float | None
    deadline: float
    began: float
    """When the call was submitted, on the host's monotonic clock."""
    params: Any
    """Set, like `context`, only while the call waits: another instance may take it over and encode it
    anew."""
    context: Mapping[str, str] | None
    answer: Response
    """The response; set before `resolve_now`."""
    on_event: OnEvent | None
    """Gets the events that the plugin sends for this call before its answer."""
    listener: ProgressBudget
    """Counts those events; set when the first one arrives."""
    owner: CallOwner
    """The instance that has the call now: a waiting call may move to another instance."""

    _waiter: Waiter | None
    _context: contextvars.Context | None

    def fill(
        self, owner: CallOwner, number: int, method: str, frame: bytes, timeout: float | None, deadline: float
    ) -> None:
        """Initialise it; must be called first."""
        self.owner = owner
        self.number = number
        self.method = method
        self.frame = frame
        self.timeout = timeout
        self.deadline = deadline
        self.on_event = self._waiter = None

    def resolve_now(self) -> None:
        """Set the result to `answer` and run the waiting task now, not in the next pass of the loop."""
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
        """Set the exception, if the call is not done yet."""
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
        self._restore_callback()
        super().set_result(result)

    def set_exception(self, exception: Any) -> None:
        self._restore_callback()
        super().set_exception(exception)

    def cancel(self, msg: Any | None = None) -> bool:
        self._restore_callback()
        return super().cancel(msg)

    def _restore_callback(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            _add_done_callback(self, waiter, context=self._context)
