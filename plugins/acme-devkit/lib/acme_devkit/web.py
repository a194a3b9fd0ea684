"""HTTP inside the invocation's deadline, without redirects: a token goes where it was meant to go."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from plughost_sdk import vai

MAX_REPLY = 4 << 20
PATIENCE = 15.0
BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which another try may help."""


def send(context: vai.Context, url: str, headers: dict[str, str], body: Any = None) -> bytes:
    """The reply's body; Retryable when the server is busy or away, Failed when it refuses."""
    connection, path = _connection(url, _left(context))
    data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    try:
        connection.connect()
        sock = connection.sock  # which the connection hands over to its reply
        with context.on_cancel(lambda: sock.shutdown(socket.SHUT_RDWR)):
            connection.request("GET" if data is None else "POST", path, data, headers)
            reply = connection.getresponse()
            answer = _read(context, reply)
    except (OSError, http.client.HTTPException) as error:
        raise vai.Retryable(f"it cannot be reached: {error}") from None
    finally:
        connection.close()
    if not 200 <= reply.status < 300:
        kind = vai.Retryable if reply.status in BUSY else vai.Failed
        raise kind(f"it answered {reply.status} {reply.reason}")
    return answer


def _connection(url: str, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    try:
        parts = urlsplit(url)
        connect = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}[parts.scheme]
        connection = connect(parts.hostname or "", parts.port, timeout=timeout)
    except (KeyError, ValueError):
        raise vai.Failed("its address is none of a web server") from None
    return connection, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _left(context: vai.Context) -> float:
    left = context.remaining()
    if left == 0:
        raise vai.Retryable("the deadline has passed")
    return PATIENCE if left is None else min(left, PATIENCE)


def _read(context: vai.Context, reply: http.client.HTTPResponse) -> bytes:
    """Piece by piece: a server that drips is left when the deadline passes."""
    body = b""
    while piece := reply.read1(1 << 16):
        _left(context)
        body += piece
        if len(body) > MAX_REPLY:
            raise vai.Failed(f"it answered with more than {MAX_REPLY} bytes")
    return body
