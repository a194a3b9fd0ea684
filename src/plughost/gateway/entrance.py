"""Entrance: what every request passes before it is routed.

It gives the request an id, checks Host and Origin, sends security headers with every answer, and makes
`/keys/k1:revoke`, which Litestar cannot route, into `/keys/k1/:revoke`.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, cast

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from plughost.gateway.problems import MEDIA_TYPE, Problem
from plughost.gateway.services import GatewayOptions

_VERB = re.compile(r"^(/.*[^/:]):([a-z][a-z_]*)$")
_INNER_VERB = re.compile(r"/:([a-z][a-z_]*)$")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_SECURITY = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Entrance:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, options: GatewayOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        values: dict[str, Any] = cast("dict[str, Any]", scope)
        if values["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: list[tuple[bytes, bytes]] = values["headers"]
        request_id = _request_id(headers)
        values["plughost_request_id"] = request_id
        if match := _VERB.fullmatch(values["path"]):
            values["path"] = f"{match[1]}/:{match[2]}"
            values["raw_path"] = values["path"].encode()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = [*message["headers"], (b"request-id", request_id.encode())]
                names = {name for name, _ in sent}
                sent += [header for header in _SECURITY if header[0] not in names]
                message["headers"] = sent
            await send(message)

        try:
            self._check_host(headers)
            self._check_origin(headers)
        except Problem as problem:
            await _send_problem(problem, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check_host(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Refuses names of other servers: a page of another site could have its name point here."""
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        name = re.sub(r":\d+$", "", hosts[0]).strip("[]").lower() if len(hosts) == 1 else ""
        if name not in self._options.hosts:
            raise Problem("host_not_allowed", f"the gateway does not serve the host {name[:100]!r}")

    def _check_origin(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Refuses requests that a browser sends for a page of another site."""
        for name, value in headers:
            if name == b"origin" and value.decode("latin-1") not in self._options.origins:
                raise Problem("foreign_origin", "requests from pages of other sites are not allowed")


def public_path(path: str) -> str:
    """A path of a handler as users call it: `/keys/{id}:revoke`."""
    return _INNER_VERB.sub(r":\1", path)


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"req_{secrets.token_hex(8)}"


async def _send_problem(problem: Problem, send: Send) -> None:
    body = msgspec.json.encode(problem.document)
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
