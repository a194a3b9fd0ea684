"""The gateway's API, with the token that one invocation was lent."""

from __future__ import annotations

import json as json_text
import os

from plughost_sdk.vai.outcome import Failed, Retryable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import http.client
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

MAX_REPLY = 16 << 20
PATIENCE = 60.0
"""Seconds for a reply when the invocation has no deadline."""
BOTH_WAYS = 2
"""socket.SHUT_RDWR, without the import."""
BUSY = {408, 425, 429, 500, 502, 503, 504}
SOCKET = "VAI_GATEWAY_SOCKET"
"""In the environment: the Unix socket that stands for the name in base_url."""


class GatewayError(Failed):
    """The gateway's refusal: `status`, a stable `code`, and words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.status = status
        self.code = code
        self.message = message


class GatewayBusy(GatewayError, Retryable):
    """It has no time, or is not there: another try may help."""


class Gateway:
    """`get`, `post` and `request` of JSON.

    base_url is `http(s)://…`, `http+unix://%2Fa%2Fsocket/…` or `unix:/a/socket`. A call waits no longer than
    until the deadline or the cancel, and follows no redirects. A coroutine has it done elsewhere:
    `await asyncio.to_thread(context.gateway.get, path)`.
    """

    def __init__(
        self,
        told: dict[str, Any],
        remaining: Callable[[], float | None],
        on_cancel: Callable[[Callable[[], object]], AbstractContextManager[None]],
    ) -> None:
        self.base_url: str = told.get("base_url") or ""
        self.scopes: tuple[str, ...] = tuple(told.get("scopes") or ())
        self.__token: str | None = told.get("delegation_token")
        self._remaining = remaining
        self._on_cancel = on_cancel

    def get(self, path: str, **query: Any) -> Any:
        if query:
            from urllib.parse import urlencode

            path += "?" + urlencode({name: value for name, value in query.items() if value is not None})
        return self.request("GET", path)

    def post(self, path: str, json: Any = None, *, idempotency_key: str | None = None) -> Any:
        """A write that is repeated with the same key is done once."""
        return self.request("POST", path, json, idempotency_key=idempotency_key)

    def request(self, method: str, path: str, json: Any = None, *, idempotency_key: str | None = None) -> Any:
        """The reply's JSON, None if it is empty; GatewayError for any status but 2xx and for no reply."""
        import http.client

        if not path.startswith("/"):
            raise ValueError(f"a path begins with a slash: {path!r}")
        if self.__token is None:
            told = "this invocation has no scopes, and therefore no token"
            raise GatewayError(
                403, "gateway.no_scopes", f"{told}: ask for them with scopes=[…] in the decorator"
            )
        headers = {"Authorization": f"Bearer {self.__token}", "Accept": "application/json"}
        body = None
        if json is not None:
            body = json_text.dumps(json, ensure_ascii=False, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        left = self._remaining()
        if left == 0:
            raise GatewayBusy(504, "gateway.no_time", "the invocation's deadline has passed")
        connection, prefix = _connection(self.base_url, PATIENCE if left is None else left)
        try:
            connection.connect()
            sock = connection.sock  # which the connection hands over to its reply
            with self._on_cancel(lambda: sock.shutdown(BOTH_WAYS)):
                connection.request(method, prefix + path, body, headers)
                reply = connection.getresponse()
                return _read(reply.status, reply.read(MAX_REPLY + 1))
        except OSError as error:
            raise GatewayBusy(503, "gateway.away", f"the gateway cannot be reached: {error}") from None
        except http.client.HTTPException as error:
            raise GatewayError(
                502, "gateway.no_http", f"the gateway's reply is not HTTP: {error!r}"
            ) from None
        finally:
            connection.close()

    def redact(self, text: str) -> str:
        return text.replace(self.__token, "[token]") if self.__token else text

    def __repr__(self) -> str:
        return f"Gateway({self.base_url}, {' '.join(self.scopes) or 'no scopes'})"

    def __reduce__(self) -> Any:
        raise TypeError("a token cannot be pickled")


def _connection(base_url: str, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    """To whom, and what comes before each path."""
    import http.client
    from urllib.parse import unquote, urlsplit

    kind, _, rest = base_url.partition(":")
    if kind == "unix":
        return _over_socket("gateway", rest.removeprefix("//"), timeout), ""
    parts = urlsplit(base_url)
    prefix = parts.path.rstrip("/")
    if kind == "http+unix":
        return _over_socket("gateway", unquote(parts.netloc), timeout), prefix
    if kind not in ("http", "https") or not parts.hostname:
        raise GatewayError(400, "gateway.bad_url", f"gateway.base_url is not an address: {base_url!r}")
    if SOCKET in os.environ:
        return _over_socket(parts.hostname, os.environ[SOCKET], timeout), prefix
    connect = http.client.HTTPSConnection if kind == "https" else http.client.HTTPConnection
    return connect(parts.hostname, parts.port, timeout=timeout), prefix


def _over_socket(host: str, path: str, timeout: float) -> http.client.HTTPConnection:
    import http.client
    import socket

    class OverSocket(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(path)

    return OverSocket(host, timeout=timeout)


def _read(status: int, body: bytes) -> Any:
    if len(body) > MAX_REPLY:
        raise GatewayError(502, "gateway.too_large", f"a reply of more than {MAX_REPLY} bytes")
    try:
        said = json_text.loads(body) if body else None
    except (ValueError, RecursionError):
        said = body[:200].decode(errors="replace")
        if status < 300:
            raise GatewayError(502, "gateway.no_json", f"a reply that is not JSON: {said!r}") from None
    if 200 <= status < 300:
        return said
    problem = said if isinstance(said, dict) else {"detail": said}
    told = problem.get("detail") or problem.get("title") or "refused"
    refusal = GatewayBusy if status in BUSY else GatewayError
    raise refusal(status, str(problem.get("code") or ""), f"{status}: {told}")
