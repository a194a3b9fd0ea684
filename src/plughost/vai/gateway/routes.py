"""Which request goes where, and the one scope that it needs: the whole API at a glance."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from plughost.vai.gateway.guest import Guest
from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead

Endpoint = Callable[[Guest, str, RequestHead, bytes], Awaitable[HttpAnswer]]
"""Given who asks, the id in the path, the head and the body."""

ID = r"([A-Za-z0-9_.-]{1,128})"


class Route(NamedTuple):
    """A route of the API: method, path, and the scope that it needs."""

    method: str
    path: str
    """With `{id}` where an id goes."""
    scope: str


ROUTES = {
    "session": Route("GET", "/v1/sessions/{id}", "sessions:read"),
    "chain": Route("GET", "/v1/chains/{id}", "chains:read"),
    "append": Route("POST", "/v1/chains/{id}/blocks", "chains:write"),
    "start_run": Route("POST", "/v1/runs", "runs:write"),
    "run": Route("GET", "/v1/runs/{id}", "runs:read"),
    "finish_run": Route("PATCH", "/v1/runs/{id}", "runs:write"),
    "compact": Route("POST", "/v1/compactions", "compactions:write"),
}

_PATTERNS = {name: re.compile(re.escape(route.path).replace(r"\{id\}", ID)) for name, route in ROUTES.items()}


def find(head: RequestHead) -> tuple[str, str]:
    """The name of the route, and the id in its path."""
    known = False
    for name, route in ROUTES.items():
        if (matched := _PATTERNS[name].fullmatch(head.path)) is not None:
            if route.method == head.method:
                return name, matched[1] if matched.lastindex else ""
            known = True
    if known:
        raise HttpProblem(405, "method_not_allowed", f"{head.path} does not support {head.method}")
    raise HttpProblem(404, "no_such_endpoint", "there is no such path")
