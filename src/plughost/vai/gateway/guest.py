"""An invocation whose token is good, as the gateway knows it: what it may, and what it has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from plughost.vai.bindings.binding import Scope
from plughost.vai.gateway.messages import HttpProblem
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.requests import HarnessRequest

MOST_AT_ONCE = 16
"""Requests of one invocation in hand; so that nobody takes all places."""
MOST_WRITTEN = 64 << 20
"""Bytes that one invocation may have kept for it."""


class Guest:
    """A running invocation with a valid token, as a client of the gateway."""

    def __init__(self, run: Execution) -> None:
        self.run = run
        self.refusals = 0
        self.over = False
        self.has_runs = False
        """Whether it may have begun any."""
        self._at_once = 0
        self._written = 0
        self._begun: set[asyncio.Task[Any]] = set()

    @property
    def scope(self) -> Scope:
        return self.run.scope

    @property
    def harness(self) -> HarnessRequest:
        """What was asked of it; others begin nothing."""
        work = self.run.invocation.work
        if not isinstance(work, HarnessRequest):
            raise HttpProblem(403, "harness_only", "only a harness can start runs and compactions")
        return work

    @property
    def left_ms(self) -> int:
        """Its time is all that those it begins have."""
        return max(int(self.run.left * 1000), 1)

    def enter(self) -> None:
        if self._at_once >= MOST_AT_ONCE:
            raise HttpProblem(429, "too_many_requests", f"{MOST_AT_ONCE} requests at a time are the maximum")
        self._at_once += 1

    def leave(self) -> None:
        self._at_once -= 1

    def spend(self, size: int) -> None:
        """What is to be kept for it counts against its budget."""
        if self._written + size > MOST_WRITTEN:
            raise HttpProblem(403, "budget_exceeded", f"an invocation can write at most {MOST_WRITTEN} bytes")
        self._written += size

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that ends with it at the latest."""
        if self.over:
            work.close()
            raise over()
        task = asyncio.get_running_loop().create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    def end(self) -> list[asyncio.Task[Any]]:
        """Cancels what it has begun, and returns that."""
        self.over = True
        begun = [*self._begun]
        for task in begun:
            task.cancel("parent_ended")
        return begun


def over() -> HttpProblem:
    """For a guest that ended while it was served."""
    return HttpProblem(401, "unauthenticated", "the delegation token's invocation is over")
