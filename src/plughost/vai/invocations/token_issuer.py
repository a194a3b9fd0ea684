"""The seam to the gateway, as an invocation that was granted scopes uses it."""

from __future__ import annotations

from typing import Protocol

from plughost.vai.invocations.execution import Execution


class TokenIssuer(Protocol):
    async def open(self) -> str:
        """The path of its socket, which is answered from now on."""

    def admit(self, run: Execution) -> str:
        """The token of an invocation, good for its scopes until it is dismissed or its deadline passes."""

    def dismiss(self, run: Execution) -> None:
        """Its token is refused from now on, and what it has begun is cancelled."""
