"""Parses the CONNECT request of a confined plugin and matches it with its grants. Pure functions over
values."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from plughost.permissions.access import Endpoint
from plughost.permissions.addresses import canonical_host, literal
from plughost.permissions.intersection import covers

_REQUEST = re.compile(rb"([!-~]{1,32}) ([!-~]{1,2048}) HTTP/1\.[01]")
_AUTHORITY = re.compile(r"(\[[^\[\]@]*\]|[^:\[\]@]*):([0-9]{1,5})")


class ConnectRefusal(Exception):
    """A refused CONNECT request: the HTTP status, the reason, and the endpoint whose grant would have allowed
    it."""

    def __init__(self, status: int, why: str, wanting: Endpoint | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.wanting = wanting

    @property
    def answer(self) -> bytes:
        """The HTTP response."""
        body = f"plughost: {self.why}\n".encode()
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            *(["Allow: CONNECT"] if self.status == 405 else []),
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


def parse_connect(head: bytes) -> tuple[str, int]:
    """The canonical host and the port that a request asks for; ConnectRefusal when it is not a CONNECT
    request.

    Only the request line counts: no header could widen what was granted.
    """
    request = _REQUEST.fullmatch(head.partition(b"\r\n")[0])
    if request is None:
        raise ConnectRefusal(400, "this is a proxy; send `CONNECT host:port HTTP/1.1`")
    if request[1] != b"CONNECT":
        raise ConnectRefusal(
            405, "only CONNECT is supported; for http://, connect to the host directly, without a proxy"
        )
    authority = _AUTHORITY.fullmatch(request[2].decode("ascii"))
    if authority is None:
        raise ConnectRefusal(400, "CONNECT takes host:port only, such as api.example.com:443")
    port = int(authority[2])
    if not 0 < port < 65536:
        raise ConnectRefusal(400, f"there is no port {port}")
    try:
        return canonical_host(authority[1]), port
    except ValueError as error:
        raise ConnectRefusal(400, str(error)) from None


def match_grant(endpoints: Iterable[Endpoint], host: str, port: int) -> Endpoint | None:
    """The granted endpoint for a canonical host and port. Of several, one with a socket of the host, or
    one that allows private addresses, is preferred. `plain` is set if any of them allows connections
    without TLS."""
    named = literal(host) is None  # an address has no subdomains
    allowing = [
        each
        for each in endpoints
        if each.port in (0, port) and covers(each.host, host) and (named or not each.host.startswith("*."))
    ]
    best = max(allowing, key=lambda endpoint: (endpoint.socket, endpoint.private), default=None)
    if best is None:
        return None
    return msgspec.structs.replace(best, plain=any(each.plain for each in allowing))
