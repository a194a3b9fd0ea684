"""Problems: every error of the gateway's API, as `application/problem+json` (RFC 9457).

Whatever goes wrong, on whichever layer, becomes a `Problem`. One table of codes gives its status, title and
remedy; docs/gateway.md lists the codes from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:plughost:problem:"


class Code(msgspec.Struct, frozen=True):
    """A kind of problem: its status, a title that never changes, and what the caller can do."""

    status: int
    title: str
    remedy: str


CODES: Mapping[str, Code] = {
    "invalid_json": Code(400, "The body is not a JSON document", "Send JSON in UTF-8."),
    "invalid_request": Code(400, "The request has invalid values", "Correct the values that `errors` names."),
    "invalid_cursor": Code(
        400, "The cursor is not valid", "Start again without a cursor, with the same filters."
    ),
    "unknown_filter": Code(400, "The list has no such filter", "Use the filters that the list documents."),
    "project_required": Code(
        400, "The request names no project", "Send the header Vai-Project, or use a key of one project."
    ),
    "unauthenticated": Code(
        401, "There is no valid credential", "Send `Authorization: Bearer` with a valid key or token."
    ),
    "forbidden": Code(
        403, "The credential does not allow this", "Use a credential with the scope that `detail` names."
    ),
    "foreign_origin": Code(403, "The request comes from another site", "List the origin with --cors-origin."),
    "host_not_allowed": Code(
        403, "The Host header names another server", "Use an address that the gateway serves."
    ),
    "not_found": Code(404, "There is no such record", "Check the id, and the project of the credential."),
    "not_bound": Code(404, "No such export is bound here", "Bind the export to the project or its org."),
    "no_such_route": Code(404, "There is no such path", "See /openapi.json for all paths."),
    "method_not_allowed": Code(
        405, "The path does not support this method", "See /openapi.json for the methods of the path."
    ),
    "not_acceptable": Code(406, "The answer does not exist in that media type", "Accept application/json."),
    "conflict": Code(
        409, "The change conflicts with the current state", "Read the record again, then decide."
    ),
    "in_use": Code(
        409,
        "The record is in use",
        "Change or remove the records that `detail` names, then repeat the request.",
    ),
    "ambiguous": Code(
        409, "Several packages have an export of this name", "Also send the package_id that `detail` names."
    ),
    "in_progress": Code(
        409, "The first request with this key still runs", "Repeat the request later with the same key."
    ),
    "stale": Code(
        412, "The record was changed by somebody else", "Read the record again and use its new ETag."
    ),
    "body_too_large": Code(413, "The body is too large", "Send fewer bytes; `detail` has the limit."),
    "unsupported_media_type": Code(
        415, "The body has the wrong media type", "Send the media type that `detail` names."
    ),
    "key_reused": Code(
        422, "The Idempotency-Key was used for another request", "Use a new key for each new request."
    ),
    "too_many_requests": Code(429, "There are too many requests", "Wait as long as Retry-After says."),
    "internal_error": Code(
        500, "The gateway failed", "Report the Request-Id to the operator; the log has the cause."
    ),
    "unavailable": Code(
        503, "The gateway cannot do this now", "Repeat the request after the time in Retry-After."
    ),
}


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one value of a body: a JSON pointer to it, and a message."""

    pointer: str
    message: str


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: tuple[FieldError, ...] = ()
    hint: str = ""


class Problem(Exception):
    """An error of the API; it becomes the answer. `detail` may be shown to the caller: never put a secret in
    it, nor whether another tenant has something."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.hint = CODES[code].remedy if hint is None else hint
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CODES[self.code].status

    @property
    def document(self) -> ProblemDocument:
        """The body of the answer."""
        kind = CODES[self.code]
        return ProblemDocument(
            type=TYPE_PREFIX + self.code,
            title=kind.title,
            status=kind.status,
            detail=self.detail,
            code=self.code,
            errors=self.errors,
            hint=self.hint,
        )


def not_found(what: str, id: str) -> Problem:
    """There is no such record, or it belongs to another tenant: nobody can tell which."""
    return Problem("not_found", f"there is no {what} {id[:200]}")
