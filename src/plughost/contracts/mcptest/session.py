"""The mcptest session: requests out, responses in, one JSON object per line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plughost._util.text import bounded
from plughost.contracts.mcptest.errors import (
    ApplicationError,
    InvalidJson,
    InvalidResponse,
    PluginCrashed,
    SpawnFailed,
    TimedOut,
)
from plughost.engine.session import BaseSession, Incoming
from plughost.errors import (
    CallFailed,
    Crashed,
    InvalidSpec,
    LaunchFailed,
    Malformed,
    PluginError,
    Quarantined,
    Timeout,
)
from plughost.wire.framing import Frame, FrameError, Lines
from plughost.wire.messages import ABSENT, NOTHING, Response, encode, is_utf8
from plughost.wire.surrogates import decode_replacing

MAX_REQUEST = 16 << 20
RAW_LINE = 4096
"""Bytes of a malformed line that are kept for diagnosis."""


class McptestRequest(msgspec.Struct, omit_defaults=True, gc=False):
    """A request line of mcptest."""

    method: str
    id: int
    params: Any = ABSENT


class McptestError(msgspec.Struct):
    """The `error` object in a response line of mcptest."""

    code: int
    message: str
    data: msgspec.Raw = NOTHING


_answers = msgspec.json.Decoder(Response)
_errors = msgspec.json.Decoder(McptestError)
_anything = msgspec.json.Decoder(msgspec.Raw)


class McptestSession(BaseSession):
    """The host's side of the protocol: encodes requests and classifies response lines."""

    errors: Mapping[type[PluginError], type[PluginError]] = {
        LaunchFailed: SpawnFailed,
        Crashed: PluginCrashed,
        Timeout: TimedOut,
        Malformed: InvalidResponse,
        Quarantined: PluginCrashed,  # after a crash every later call reports the crash
    }

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line

    def framing(self) -> Lines:
        return Lines(self._max_line, send_limit=max(self._max_line, MAX_REQUEST))

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        if context:
            raise InvalidSpec("mcptest requests carry no context")
        return encode(McptestRequest(method, number, params))

    def receive(self, frame: Frame) -> Incoming:
        try:
            answer = decode_replacing(_answers, frame)
        except (ValueError, RecursionError) as error:
            return _diagnose(frame, error)
        if not (frame.isascii() or is_utf8(frame)):
            return InvalidJson("the response is not valid UTF-8", head=bytes(frame[:RAW_LINE]))
        if answer.error is not NOTHING:
            return self._with_error(answer, frame)
        if answer.result is NOTHING:
            return InvalidResponse("the response has neither result nor error", head=bytes(frame[:RAW_LINE]))
        return answer

    def _with_error(self, answer: Response, frame: Frame) -> Response | Malformed:
        """Checks a response that has an `error` member."""
        if bytes(answer.error) == b"null" and answer.result is not NOTHING:
            answer.error = NOTHING
            return answer
        if answer.result is not NOTHING and bytes(answer.result) != b"null":
            return InvalidResponse("the response has both result and error", head=bytes(frame[:RAW_LINE]))
        try:
            _errors.decode(answer.error)
            msgspec.json.decode(answer.error)
        except msgspec.DecodeError as error:
            return InvalidResponse(
                f"the response's error has the wrong shape: {error}", head=bytes(frame[:RAW_LINE])
            )
        answer.result = NOTHING  # `"result": null` beside an error object is absent
        return answer

    def on_bad_frame(self, error: FrameError) -> Incoming:
        return InvalidResponse(error.message, head=error.head)

    def on_unknown_response(self, answer: Response, head: bytes) -> Incoming:
        return InvalidResponse(f"the response's id {answer.id} belongs to no request", head=head)

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        error = _errors.decode(answer.error)
        return ApplicationError(
            f"it answered {method!r} with error {error.code}: {bounded(error.message)}",
            error=msgspec.json.decode(answer.error),
            id=answer.id,
        )


def _diagnose(frame: Frame, error: Exception) -> Malformed:
    """The error for an undecodable line: not JSON, or JSON of the wrong shape. The decoder reports whichever
    comes first."""
    head = bytes(frame[:RAW_LINE])
    if not frame.strip():
        return InvalidResponse("the response is a blank line", head=head)
    try:
        decode_replacing(_anything, frame)
    except (ValueError, RecursionError) as deeper:
        why = str(deeper).removeprefix("JSON is malformed: ")
        return InvalidJson(f"it wrote a line to stdout that is not JSON: {why}", head=head)
    return InvalidResponse(f"the response has the wrong shape: {error}", head=head)
