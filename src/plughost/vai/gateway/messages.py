"""What the API is asked and answers, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from plughost.errors import PluginError

T = TypeVar("T")

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request before its body is read."""

    method: str
    path: str
    """As it was sent: nothing is decoded or made shorter, so that it cannot mean two things."""
    query: Mapping[str, str] = {}
    token: str = ""
    key: str = ""
    """Of a write that may be repeated and is done once."""

    def __repr__(self) -> str:
        return f"Head({self.method} {self.path})"


class HttpAnswer(msgspec.Struct, frozen=True):
    """An HTTP response with a JSON document."""

    status: int
    document: Any
    kind: str = "application/json"


class HttpProblem(PluginError):
    """A request that is not answered with what it asked for: problem+json, with a code for programs."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code  # type: ignore[misc]  # each has its own

    @property
    def answer(self) -> HttpAnswer:
        document = {
            "type": "about:blank",
            "title": TITLES[self.status],
            "status": self.status,
            "code": self.code,
            "detail": self.message,
        }
        return HttpAnswer(self.status, document, "application/problem+json")


def read(body: bytes, kind: type[T]) -> T:
    """The body as what is asked for there."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:
        raise HttpProblem(400, "invalid_request", f"the body is not valid: {error}") from error


_NUMBER = re.compile(r"[0-9]{1,9}")


def number(query: Mapping[str, str], name: str, usual: int, most: int, least: int = 0) -> int:
    """A number in the query: at most `most`, whatever it says."""
    text = query.get(name, str(usual))
    if not _NUMBER.fullmatch(text) or int(text) < least:
        raise HttpProblem(400, "invalid_request", f"{name} must be a number from {least}")
    return min(int(text), most)
