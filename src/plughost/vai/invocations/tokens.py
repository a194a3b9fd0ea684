"""Delegation tokens: a credential per invocation, valid for its scopes of the gateway's API only.

A token is a JWT, signed with Ed25519, behind the prefix `vai_dlg_`. It is valid while its invocation runs:
the issuer keeps the list of those, so a token is revoked with its invocation, even before it expires. All
processes of a database sign with one key (`SigningKeys`), which its header names.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from plughost.errors import Denied
from plughost.vai.invocations.signing_key import SigningKey

PREFIX = "vai_dlg_"
SHAPE = rf"{PREFIX}[\w.-]+|{base64.b64encode(PREFIX.encode() + b'e').decode()}[\w+/-]*"
"""A regular expression for any token, also in base64: every JWT begins with `e`."""
ALGORITHM = "Ed25519"
AUDIENCE = "vai.gateway"
ISSUER = "plughost"
MAX_LENGTH = 4096
"""Characters of a token; a longer one is refused unread."""


class Delegation(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of one token: its invocation, tenant, scopes and expiry."""

    invocation_id: str
    org_id: str
    project_id: str | None
    scopes: tuple[str, ...]
    expires_at: float
    """Seconds since 1970."""


class _Claims(msgspec.Struct):
    jti: str = ""


class InvalidToken(Denied):
    """A token that is forged, expired, or of an invocation that has ended."""

    def __init__(self, message: str, invocation_id: str) -> None:
        super().__init__(message)
        self.invocation_id = invocation_id
        """The invocation that the token claims, verified or not; empty when it claims none."""


class OutOfScope(Denied):
    """A valid token without the scope that the request needs."""

    def __init__(self, message: str, delegation: Delegation) -> None:
        super().__init__(message)
        self.delegation = delegation


class TokenVerifier(Protocol):
    """Verifies delegation tokens (implemented by `SigningIssuer`)."""

    def verify(self, token: str, scope: str) -> Delegation:
        """The delegation of a token. OutOfScope when it lacks the scope, Denied when it is not valid."""


class SigningIssuer:
    """Signs delegation tokens for running invocations of this process, and verifies them. The first of `keys`
    signs; tokens of all of them are accepted."""

    def __init__(self, keys: Sequence[SigningKey], now: Callable[[], float] = time.time) -> None:
        from joserfc import jwt

        self._header = _header(keys[0])
        self._key: Any = keys[0].as_jwk()
        self._keys: dict[str, Any] = {}
        """The key for each beginning, prefix and header, that our tokens have."""
        for key in keys:
            jwk = key.as_jwk()
            trial: str = jwt.encode(_header(key), {}, jwk, algorithms=[ALGORITHM])
            self._keys[PREFIX + trial.partition(".")[0]] = jwk
        self._now = now
        self._running: dict[str, Delegation] = {}

    def __repr__(self) -> str:
        return f"<Issuer of {len(self._running)} tokens>"

    @property
    def running(self) -> frozenset[str]:
        """The invocations whose tokens are good."""
        return frozenset(self._running)

    def mint(self, delegation: Delegation) -> str:
        """A token for these rights. It is valid until `revoke`, or until it expires."""
        from joserfc import jwt

        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "jti": delegation.invocation_id,
            "org": delegation.org_id,
            "project": delegation.project_id,
            "scope": " ".join(delegation.scopes),
            "exp": int(delegation.expires_at) + 1,  # whole seconds; `verify` checks the exact deadline
        }
        token: str = jwt.encode(self._header, claims, self._key, algorithms=[ALGORITHM])
        self._running[delegation.invocation_id] = delegation
        return PREFIX + token

    def revoke(self, invocation_id: str) -> None:
        """Revokes the token of an invocation that has ended, however it ended."""
        self._running.pop(invocation_id, None)

    def verify(self, token: str, scope: str) -> Delegation:
        """The delegation of a token; see `TokenVerifier.verify`."""
        from joserfc import errors, jwt

        if not token.startswith(PREFIX) or len(token) > MAX_LENGTH:
            raise Denied("this is not a delegation token")
        key = self._keys.get(token.partition(".")[0])
        if key is None:  # a header that is not ours is not even parsed
            raise InvalidToken("the delegation token was not issued by this host", _unverified_id(token))
        try:
            claims = jwt.decode(token.removeprefix(PREFIX), key, algorithms=[ALGORITHM]).claims
        except (errors.JoseError, ValueError) as error:
            raise InvalidToken(
                "the delegation token was not issued by this host", _unverified_id(token)
            ) from error
        invocation_id = str(claims.get("jti"))
        delegation = self._running.get(invocation_id)
        if delegation is None or claims.get("aud") != AUDIENCE or claims.get("iss") != ISSUER:
            raise InvalidToken("the invocation of this delegation token has ended", invocation_id)
        if self._now() >= delegation.expires_at:
            raise InvalidToken("the delegation token has expired", invocation_id)
        if scope not in delegation.scopes:
            raise OutOfScope(f"the delegation does not include {scope}", delegation)
        return delegation


def _header(key: SigningKey) -> dict[str, str]:
    return {"alg": ALGORITHM, "typ": "JWT", "kid": key.name}


def _unverified_id(token: str) -> str:
    """The invocation id (`jti`) in a token whose signature was not verified; empty when there is none."""
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=="), type=_Claims).jti
    except (IndexError, ValueError, RecursionError):
        return ""
