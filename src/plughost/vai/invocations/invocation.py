"""Invocation: a request to execute a bound export, and Invoker, the protocol of what executes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from plughost.vai.bindings.binding import Binding
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import Work

OnEvent = Callable[[dict[str, Any]], object]
"""Called with every event of a streaming export while it runs."""


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """The session, chain, run and trace to which an invocation belongs."""

    session_id: str | None = None
    chain_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    project_id: str | None = None
    """The project for which an organisation's binding is used."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One execution to be done: a binding, a request for its export, and an optional timeout."""

    binding: Binding
    work: Work
    related: Related = Related()
    timeout_ms: int | None = None
    """The caller's timeout; the binding or the manifest may allow less."""


class Invoker(Protocol):
    """Executes invocations. Requests carry milliseconds and digests, never paths, so that they could be
    executed on another machine."""

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Executes and records one invocation. InvalidSpec, without an invocation, for an unusable
        binding."""

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        """Cancels a running invocation. False when it has ended already."""
