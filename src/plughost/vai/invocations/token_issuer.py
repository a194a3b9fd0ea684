"""The seam to the gateway, as an invocation that was granted scopes uses it."""

from __future__ import annotations

from typing import Protocol

from plughost.vai.invocations.execution import Run


class Delegator(Protocol):
    async def open(self) -> str:
        """The path of its socket, which is answered from now on."""

    def admit(self, run: Run) -> str:
        """The token of an invocation, good for its scopes until it is dismissed or its deadline passes."""

    def dismiss(self, run: Run) -> None:
        """Its token is refused from now on, and what it has begun is cancelled."""
