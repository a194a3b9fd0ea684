"""JSON-RPC 2.0 in both directions: the base session of ainb and kaged. Unknown members are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost._util.text import bounded
from plughost.engine.session import BaseSession, Incoming
from plughost.errors import CallFailed, Denied, InvalidSpec, PluginError, Timeout, UnknownMethod
from plughost.wire import messages
from plughost.wire.framing import HEAD, Frame
from plughost.wire.messages import ABSENT, NOTHING, Response, Unusable, encode, is_utf8
from plughost.wire.surrogates import LoneSurrogates, decode_replacing

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CAPABILITY_DENIED = -32001
TIMED_OUT = -32002

_CODES: dict[type[PluginError], int] = {
    UnknownMethod: METHOD_NOT_FOUND,
    InvalidSpec: INVALID_PARAMS,
    Denied: CAPABILITY_DENIED,
    Timeout: TIMED_OUT,
}
_NULL = b"null"
_SCAN_BYTES = 128
_RESPONSE_START = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"'
)
_RESPONSE_END = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class JsonRpcEnvelope(msgspec.Struct, gc=False):
    """Any received JSON-RPC message: a request, a notification or a response."""

    jsonrpc: str = ""
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class JsonRpcError(msgspec.Struct):
    """The `error` object of a JSON-RPC response."""

    code: int
    message: str
    data: Any = ABSENT


class JsonRpcRequest(msgspec.Struct):
    """A JSON-RPC request, to be sent."""

    id: int
    method: str
    params: Any
    jsonrpc: str = "2.0"


class JsonRpcNotification(msgspec.Struct):
    """A JSON-RPC notification, to be sent."""

    method: str
    params: Any
    jsonrpc: str = "2.0"


class JsonRpcReply(msgspec.Struct):
    """A successful JSON-RPC response, to be sent."""

    id: int | str
    result: Any
    jsonrpc: str = "2.0"


class JsonRpcRefusal(msgspec.Struct):
    """A JSON-RPC error response, to be sent."""

    id: int | str
    error: JsonRpcError
    jsonrpc: str = "2.0"


_messages = msgspec.json.Decoder(JsonRpcEnvelope)
error_decoder = msgspec.json.Decoder(JsonRpcError)


class JsonRpc(BaseSession):
    """A session for symmetric JSON-RPC 2.0: either side sends requests, notifications and responses. Invalid
    messages are dropped."""

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        return encode(JsonRpcRequest(number, method, as_object(params)))

    def encode_notification(self, method: str, params: Any) -> bytes:
        return encode(JsonRpcNotification(method, as_object(params)))

    def encode_response(self, number: int | str, result: Any) -> bytes:
        return encode(JsonRpcReply(number, {} if result is None else result))

    def encode_error(self, number: int | str, error: PluginError) -> bytes:
        return encode(JsonRpcRefusal(number, _error_object(error)))

    def receive(self, frame: Frame) -> Incoming:
        try:
            message = decode_replacing(_messages, frame)
        except (ValueError, RecursionError) as error:
            final = isinstance(error, LoneSurrogates)
            return _unusable(
                f"a message that is not JSON-RPC: {error}", frame, meant_for=_response_id(frame), final=final
            )
        if message.jsonrpc != "2.0" or not is_utf8(frame):
            return _unusable("a message that is not JSON-RPC 2.0", frame, meant_for=_response_id(frame))
        if message.method is not None:
            if message.id is None:
                return self.on_notification(messages.Notification(message.method, message.params))
            return self.on_request(messages.Request(message.id, message.method, message.params))
        if not isinstance(message.id, int):
            return _unusable("an answer without a numeric id", frame)
        if message.error is not NOTHING and bytes(message.error) != _NULL:
            try:
                error_decoder.decode(message.error)
            except (ValueError, RecursionError) as problem:
                return _unusable(f"an answer with a malformed error: {problem}", frame, meant_for=message.id)
            return Response(message.id, error=message.error)
        return (
            self.bare(message.id, frame)
            if message.result is NOTHING
            else Response(message.id, message.result)
        )

    def on_notification(self, notification: messages.Notification) -> Incoming:
        """Handles a notification; by default the host's services get it."""
        return notification

    def on_request(self, request: messages.Request) -> Incoming:
        """Handles a request; by default the host's services answer it. A `Reply` answers it at once."""
        return request

    def bare(self, number: int, frame: Frame) -> Incoming:
        """Handles a response with neither result nor error; by default the result is `null`."""
        return Response(number, msgspec.Raw(_NULL))

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        error = error_decoder.decode(answer.error)
        message = f"it answered {method!r} with error {error.code}: {bounded(error.message)}"
        return CallFailed(message, error=msgspec.to_builtins(error))


def _unusable(reason: str, frame: Frame, *, meant_for: int | None = None, final: bool = False) -> Unusable:
    return Unusable(reason, bytes(frame[:HEAD]), meant_for, final)


def _response_id(frame: Frame) -> int | None:
    """The request id of a malformed response, where the beginning or the end of the frame still shows it."""
    found = _RESPONSE_START.match(frame[:_SCAN_BYTES]) or _RESPONSE_END.search(frame[-_SCAN_BYTES:])
    return None if found is None else int(found[1])


def as_object(params: Any) -> Any:
    """The params as sent: an empty object instead of null, which real plugins cannot read."""
    return {} if params is ABSENT or params is None else params


def _error_object(error: PluginError) -> JsonRpcError:
    """The JSON-RPC error of an exception; an error from another plugin is passed on unchanged."""
    if isinstance(error, CallFailed):
        try:
            return msgspec.convert(error.error, JsonRpcError)
        except msgspec.ValidationError:
            return JsonRpcError(INTERNAL_ERROR, error.message)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), INTERNAL_ERROR)
    return JsonRpcError(code, error.message)
