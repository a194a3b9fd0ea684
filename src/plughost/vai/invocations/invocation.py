"""One execution that is wanted, and the seam to whoever carries it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from plughost.vai.bindings.binding import Binding
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import Work

OnEvent = Callable[[dict[str, Any]], object]
"""Told of every event of a streaming export while it runs."""


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """What an invocation belongs to."""

    session_id: str | None = None
    chain_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    project_id: str | None = None
    """The one that an organisation's binding is used for."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    binding: Binding
    work: Work
    related: Related = Related()
    timeout_ms: int | None = None
    """The caller's own; its binding and its manifest may allow less."""


class Invoker(Protocol):
    """The seam for more than one machine: requests carry milliseconds and digests, never paths."""

    async def invoke(self, wanted: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Its one outcome, recorded. InvalidSpec, and no invocation, for a binding that cannot be used."""

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        """False when it is over already."""
