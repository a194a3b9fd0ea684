"""RegistryClient: HTTP requests to one registry, with authorization, redirects, retries and size limits.

Imported late, because httpx is large.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import TypeVar
from urllib.parse import quote, urljoin

import httpx
import msgspec

from plughost._util.text import escape_controls
from plughost.clock import Clock
from plughost.permissions.addresses import UrlTarget, parse_url, shown
from plughost.vai.packages.oci.errors import BadContent, NotFound, TransferFailed, Unauthorized
from plughost.vai.packages.oci.registry.auth import LOG_IN, PULL, Authorization, TokenRequest
from plughost.vai.packages.oci.registry.challenge import read_challenges
from plughost.vai.packages.oci.registry.retry import Retryable, RetryPolicy, retry, retry_after, within

MAX_REDIRECTS = 5
MAX_SMALL = 64 << 10
CONNECT_TIMEOUT = 15.0
IN_URLS = "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"

_REDIRECTS = (301, 302, 303, 307, 308)

Result = TypeVar("Result")
Body = bytes | Callable[[], AsyncIterable[bytes]]
"""The body of a request; a function creates it anew for each attempt."""


class RegistryProblem(msgspec.Struct, frozen=True):
    """One error in a registry's answer."""

    code: str = ""
    message: str | None = ""


class RegistryProblems(msgspec.Struct, frozen=True):
    """The error document of a registry."""

    errors: list[RegistryProblem] = []


class RegistryClient:
    """An HTTP client for one repository of one registry."""

    def __init__(
        self,
        registry: UrlTarget,
        authorization: Authorization,
        clock: Clock,
        policy: RetryPolicy,
        tls: ssl.SSLContext,
        *,
        proxies: bool,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.registry = registry
        self.clock = clock
        self.policy = policy
        self.actions = PULL
        self._authorization = authorization
        self._jitter = jitter
        self._client = httpx.AsyncClient(
            verify=tls,
            trust_env=proxies,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            headers={"User-Agent": "plughost", "Accept-Encoding": "identity", "Accept": "*/*"},
        )
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def retry(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Retries an attempt by the retry policy. Secrets are redacted from the error."""
        try:
            return await retry(attempt, self.policy, self.clock, self._jitter)
        except TransferFailed as error:  # a server may echo our secrets anywhere, also in a Location
            error.message = self._authorization.redact(error.message)
            raise

    async def open(
        self,
        method: str,
        target: UrlTarget,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        *,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Sends a request and returns the response, whose body the caller must read and close. Follows
        redirects of GET and HEAD only."""
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._authorized(method, target, headers or {}, body, timeout)
            if response.status_code not in _REDIRECTS or "location" not in response.headers:
                return response
            await response.aclose()
            if method not in ("GET", "HEAD"):
                raise TransferFailed(
                    f"{target}: the upload was redirected, and uploads do not follow redirects"
                )
            target = follow(target, response.headers["location"])
        raise TransferFailed(f"{target}: more than {MAX_REDIRECTS} redirects")

    async def ask(
        self,
        method: str,
        target: UrlTarget,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        *,
        good: tuple[int, ...] = (200,),
        limit: int = MAX_SMALL,
    ) -> tuple[httpx.Response, bytes]:
        """Sends a request, with retries, and reads the whole answer of at most `limit` bytes."""

        async def attempt() -> tuple[httpx.Response, bytes]:
            response = await self.open(method, target, headers, body)
            try:
                if response.status_code not in good:
                    raise await self.refusal(response, target)
                async with within(self.clock, self.policy.answer, str(target)):
                    return response, await read(response, limit, target)
            finally:
                await response.aclose()

        return await self.retry(attempt)

    async def refusal(self, response: httpx.Response, target: UrlTarget) -> Exception:
        """The exception for an error status; Retryable when the error may be temporary."""
        status = response.status_code
        texts = [f"{status} {response.reason_phrase[:40]}".rstrip()]
        try:
            async with within(self.clock, self.policy.answer, str(target)):
                texts += _error_texts(await read(response, MAX_SMALL, target))
        except (Retryable, TransferFailed):
            pass  # the error document is optional
        text = f"{target}: " + self._authorization.redact(escape_controls(", ".join(texts)))[:400]
        if status in (408, 429) or status >= 500:
            return Retryable(TransferFailed(text), after=retry_after(response.headers.get("retry-after")))
        if status in (404, 405):  # an old registry answers 405 where it lacks an API
            return NotFound(text)
        if status in (401, 403):
            return Unauthorized(text, hint=LOG_IN)
        return TransferFailed(text)

    async def _authorized(
        self, method: str, target: UrlTarget, headers: Mapping[str, str], body: Body, timeout: float | None
    ) -> httpx.Response:
        """Sends a request, and repeats it once with the authorization that the registry asks for. Other hosts
        get none."""
        if target.origin != self.registry.origin:
            return await self._send(method, target, headers, body, timeout)
        response = await self._send(method, target, self._with_header(headers), body, timeout)
        if response.status_code != 401:
            return response
        await response.aclose()
        challenges = read_challenges(", ".join(response.headers.get_list("www-authenticate")))
        await self._authorization.answer(challenges, self.actions, self._fetch_token)
        return await self._send(method, target, self._with_header(headers), body, timeout)

    def _with_header(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        header = self._authorization.header(self.actions)
        return {**headers, "Authorization": header} if header else headers

    async def _fetch_token(self, asked: TokenRequest) -> bytes:
        headers = {"Authorization": asked.authorization} if asked.authorization else {}
        if asked.form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        response = await self._send("POST" if asked.form else "GET", asked.target, headers, asked.form, None)
        try:
            if response.status_code != 200:
                raise await self.refusal(response, asked.target)
            async with within(self.clock, self.policy.answer, str(asked.target)):
                return await read(response, MAX_SMALL, asked.target)
        finally:
            await response.aclose()

    async def _send(
        self, method: str, target: UrlTarget, headers: Mapping[str, str], body: Body, timeout: float | None
    ) -> httpx.Response:
        """Sends one request and awaits the head of the response; Retryable when there is none."""
        content = body if isinstance(body, bytes) else body()
        request = self._client.build_request(method, target.url, headers=dict(headers), content=content)
        try:
            async with within(self.clock, timeout or self.policy.answer, str(target)):
                return await self._client.send(request, stream=True)
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError) as error:
            raise as_transfer_failure(error, target) from error


def follow(target: UrlTarget, location: str) -> UrlTarget:
    """The target of a Location header; never from TLS to plain HTTP."""
    try:
        following = parse_url(urljoin(target.url, quote(location[: 16 << 10], safe=IN_URLS)))
    except ValueError as error:
        raise TransferFailed(f"{target} redirects to {shown(location)}: {error}") from None
    if target.scheme == "https" and following.scheme != "https":
        raise TransferFailed(f"{target} redirects from TLS to plain HTTP: {following}")
    return following


async def read(response: httpx.Response, limit: int, target: UrlTarget) -> bytes:
    """Reads a whole body; BadContent when it is larger than the limit."""
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > limit:
                raise BadContent(f"{target}: the answer is larger than {limit} bytes")
    except httpx.TransportError as error:
        raise as_transfer_failure(error, target) from error
    return bytes(body)


def as_transfer_failure(error: Exception, target: UrlTarget) -> Exception:
    """Maps a network error: a broken connection is Retryable, a wrong certificate or host name is not."""
    deepest: BaseException = error
    while (cause := deepest.__cause__ or deepest.__context__) is not None:
        deepest = cause
    reason = escape_controls(str(deepest) or str(error) or type(error).__name__)[:300]
    failure = TransferFailed(f"{target}: {reason}")
    if isinstance(deepest, ssl.SSLCertVerificationError):
        failure.hint = (
            "for a registry with a private certificate authority, name its certificate in SSL_CERT_FILE"
        )
        return failure
    for_good = isinstance(deepest, socket.gaierror) and deepest.errno != socket.EAI_AGAIN
    return failure if for_good else Retryable(failure)


def _error_texts(body: bytes) -> list[str]:
    try:
        problems = msgspec.json.decode(body, type=RegistryProblems).errors[:3]
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return []
    return [problem.message or problem.code for problem in problems]
