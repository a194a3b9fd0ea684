"""Delegated credentials: a token per invocation that opens the gateway's API for its scopes only.

A JWT signed with Ed25519 behind the prefix `vai_dlg_`. It is good while its invocation runs: the issuer knows
which do, so a token ends with it even when its time is not over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from plughost.base.errors import Denied

PREFIX = "vai_dlg_"
ALGORITHM = "Ed25519"
AUDIENCE = "vai.gateway"
ISSUER = "plughost"
LARGEST = 4096


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """What a token stands for."""

    invocation_id: str
    org_id: str
    project_id: str | None
    scopes: tuple[str, ...]
    expires_at: float
    """Seconds since 1970."""


class OutOfScope(Denied):
    """A good token, for something else."""

    def __init__(self, message: str, delegation: Delegation) -> None:
        super().__init__(message)
        self.delegation = delegation


class TokenVerifier(Protocol):
    """The seam to the gateway: who may do what."""

    def verify(self, token: str, scope: str) -> Delegation:
        """OutOfScope when it stands for less, Denied when it stands for nothing."""


class Issuer:
    """Mints tokens for running invocations and verifies them; its key never leaves the process."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        try:
            from joserfc.jwk import OKPKey
        except ImportError as error:
            raise Denied("delegated credentials need joserfc", hint="pip install 'plughost[vai]'") from error
        self._key: Any = OKPKey.generate_key("Ed25519")
        self._now = now
        self._running: dict[str, Delegation] = {}

    def __repr__(self) -> str:
        return f"<Issuer of {len(self._running)} tokens>"

    @property
    def running(self) -> frozenset[str]:
        """The invocations whose tokens are good."""
        return frozenset(self._running)

    def mint(self, delegation: Delegation) -> str:
        from joserfc import jwt

        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "jti": delegation.invocation_id,
            "org": delegation.org_id,
            "project": delegation.project_id,
            "scope": " ".join(delegation.scopes),
            "exp": int(delegation.expires_at) + 1,  # whole seconds; `verify` knows the deadline itself
        }
        header = {"alg": ALGORITHM, "typ": "JWT"}
        token: str = jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])
        self._running[delegation.invocation_id] = delegation
        return PREFIX + token

    def revoke(self, invocation_id: str) -> None:
        """At the end of an invocation, whatever the end was."""
        self._running.pop(invocation_id, None)

    def verify(self, token: str, scope: str) -> Delegation:
        from joserfc import errors, jwt

        if not token.startswith(PREFIX) or len(token) > LARGEST:
            raise Denied("that is no delegation token")
        try:
            claims = jwt.decode(token.removeprefix(PREFIX), self._key, algorithms=[ALGORITHM]).claims
        except (errors.JoseError, ValueError) as error:
            raise Denied("the delegation token is not one of ours") from error
        delegation = self._running.get(str(claims.get("jti")))
        if delegation is None or claims.get("aud") != AUDIENCE or claims.get("iss") != ISSUER:
            raise Denied("the delegation token's invocation is over")
        if self._now() >= delegation.expires_at:
            raise Denied("the delegation token has expired")
        if scope not in delegation.scopes:
            raise OutOfScope(f"the delegation does not include {scope}", delegation)
        return delegation
