"""TokenIssuer: the protocol by which an invocation with scopes gets its delegation token from the gateway."""

from __future__ import annotations

from typing import Protocol

from plughost.vai.invocations.execution import Execution


class TokenIssuer(Protocol):
    """Issues a delegation token for each invocation, and revokes it at the end (implemented by the
    gateway)."""

    async def open(self) -> str:
        """Starts to listen, if it does not yet, and returns the path of the unix socket."""

    def admit(self, execution: Execution) -> str:
        """Issues the token of an invocation, valid for its scopes until `dismiss` or its deadline."""

    def dismiss(self, execution: Execution) -> None:
        """Revokes the token of an invocation, and cancels everything that it has started."""
