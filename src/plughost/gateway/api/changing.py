"""Answers to changes: status, ETag, and whether the answer was stored by an earlier request."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from litestar import Response

from plughost.gateway.changes import Answer

T = TypeVar("T", bound=msgspec.Struct)


def respond(answer: Answer[T]) -> Response[T]:
    """The response to a change."""
    headers = etag(answer.document)
    if answer.is_repeat:
        headers["Idempotent-Replayed"] = "true"
    return Response(answer.document, status_code=answer.status, headers=headers)


def etag(document: msgspec.Struct) -> dict[str, str]:
    """The ETag header of a record that counts its revisions; nothing for others."""
    revision = getattr(document, "revision", None)
    return {} if revision is None else {"ETag": f'"{revision}"'}
