"""Authorization at one registry: anonymous, basic, or a bearer token that is renewed when it expires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlencode

import msgspec

from plughost.clock import Clock
from plughost.permissions.addresses import UrlTarget, parse_url, shown
from plughost.vai.packages.oci.errors import BadContent, Unauthorized
from plughost.vai.packages.oci.registry.challenge import Challenge
from plughost.vai.packages.oci.registry.credentials import PASSWORD, USER, Credentials

MIN_LIFETIME = 60.0
"""Minimum lifetime of a token in seconds; also the default, since older services do not state one."""
MARGIN = 0.9
"""The share of its lifetime in which a token is used: clocks differ, and requests take time."""
MAX_TOKEN = 16 << 10

PULL, PUSH = "pull", "pull,push"

LOG_IN = f"log in with docker or podman, or set {USER} and {PASSWORD}"


class Token(msgspec.Struct, frozen=True):
    """The answer of a token service."""

    token: str = ""
    access_token: str = ""
    expires_in: float = MIN_LIFETIME


class TokenRequest(msgspec.Struct, frozen=True):
    """A request to a token service: POST if it has a form, otherwise GET."""

    target: UrlTarget
    authorization: str = ""
    form: bytes = b""


Fetch = Callable[[TokenRequest], Awaitable[bytes]]


class Authorization:
    """The Authorization header for one registry. It is sent to that registry only."""

    def __init__(
        self, registry: UrlTarget, repository: str, credentials: Credentials | None, clock: Clock
    ) -> None:
        self._registry = registry
        self._repository = repository
        self._credentials = credentials
        self._clock = clock
        self._header = ""
        self._until = 0.0
        self._actions = ""

    def header(self, actions: str) -> str:
        """The header's value; empty when none is known that is valid for the actions."""
        return self._header if actions in self._actions and self._clock.time() < self._until else ""

    async def answer(self, challenges: Sequence[Challenge], actions: str, fetch: Fetch) -> None:
        """Obtains what the registry's challenges ask for; Unauthorized when that is not possible."""
        offered = {challenge.scheme: challenge.parameters for challenge in reversed(challenges)}
        if "bearer" in offered:
            token = await self._token(offered["bearer"], actions, fetch)
            self._header = f"Bearer {token.token or token.access_token}"
            self._until = self._clock.time() + max(MIN_LIFETIME, token.expires_in) * MARGIN
        elif "basic" in offered:
            if self._credentials is None or not self._credentials.password:
                raise Unauthorized(f"{self._registry.origin} requires a user and a password", hint=LOG_IN)
            self._header, self._until = self._credentials.basic, float("inf")
        else:
            names = ", ".join(sorted(offered)) or "no readable scheme"
            raise Unauthorized(
                f"{self._registry.origin} requires authentication by an unsupported scheme: {names[:100]}"
            )
        self._actions = actions

    def redact(self, text: str) -> str:
        """Redacts our secrets from a server's text, in case it repeats them."""
        secrets = [self._header.partition(" ")[2], *(self._credentials.secrets if self._credentials else ())]
        for secret in secrets:
            text = text.replace(secret, "***") if secret else text
        return text

    async def _token(self, offer: dict[str, str], actions: str, fetch: Fetch) -> Token:
        asked = token_request(self._registry, offer, self._credentials, self._repository, actions)
        try:
            token = msgspec.json.decode(await fetch(asked), type=Token)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise BadContent(f"{asked.target}: no token in the answer") from None
        value = token.token or token.access_token
        if not value or len(value) > MAX_TOKEN or not all("!" <= letter <= "~" for letter in value):
            raise BadContent(f"{asked.target}: no token in the answer")
        return token


def token_request(
    registry: UrlTarget, offer: dict[str, str], credentials: Credentials | None, repository: str, actions: str
) -> TokenRequest:
    """The request to the token service that the registry names, for `actions` in `repository`."""
    realm = offer.get("realm", "")
    try:
        target = parse_url(realm)
    except ValueError as error:
        raise Unauthorized(f"{registry.origin} refers to the token service {shown(realm)}: {error}") from None
    if registry.scheme == "https" and target.scheme != "https":
        raise Unauthorized(f"{registry.origin} refers to a token service without TLS: {target.origin}")
    scope = f"repository:{repository}:{actions}"
    parameters = [("service", offer["service"])] if "service" in offer else []
    parameters.append(("scope", scope))
    if credentials is not None and credentials.refresh:
        parameters += [("grant_type", "refresh_token"), ("client_id", "plughost")]
        parameters.append(("refresh_token", credentials.refresh))
        return TokenRequest(target, form=urlencode(parameters).encode())
    path = target.path + ("&" if "?" in target.path else "?") + urlencode(parameters)
    authorization = credentials.basic if credentials is not None and credentials.password else ""
    return TokenRequest(msgspec.structs.replace(target, path=path), authorization)
