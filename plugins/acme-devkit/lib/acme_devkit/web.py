"""HTTP inside the invocation's deadline, without redirects: a token goes where it was meant to go."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from plughost_sdk import vai

MAX_REPLY = 4 << 20
PATIENCE = 15.0
BUSY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses after which another try may help."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def send(context: vai.Context, url: str, headers: dict[str, str], body: Any = None) -> bytes:
    """The reply's body; Retryable when the server is busy or away, Failed when it refuses."""
    data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_left(context)) as reply:
            return _read(context, reply)
    except urllib.error.HTTPError as error:
        with error:
            kind = vai.Retryable if error.code in BUSY else vai.Failed
            raise kind(f"it answered {error.code} {error.reason}") from None
    except OSError as error:
        raise vai.Retryable(f"it cannot be reached: {getattr(error, 'reason', error)}") from None


def _left(context: vai.Context) -> float:
    left = context.remaining()
    if left == 0:
        raise vai.Retryable("the deadline has passed")
    return PATIENCE if left is None else min(left, PATIENCE)


def _read(context: vai.Context, reply: Any) -> bytes:
    """Piece by piece: a server that drips is left when the deadline passes or the call is cancelled."""
    body = b""
    while piece := reply.read1(1 << 16):
        context.check()
        _left(context)
        body += piece
        if len(body) > MAX_REPLY:
            raise vai.Failed(f"it answered with more than {MAX_REPLY} bytes")
    return body
