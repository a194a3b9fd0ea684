"""JSON-RPC 2.0 in both directions, for the contracts that speak it. Unknown members are ignored."""

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
_NEAR = 128
_ANSWER_BEGINS = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"'
)
_ANSWER_ENDS = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class JsonRpcEnvelope(msgspec.Struct, gc=False):
    """Anything that came: a request, a notification or an answer."""

    jsonrpc: str = ""
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class JsonRpcError(msgspec.Struct):
    code: int
    message: str
    data: Any = ABSENT


class JsonRpcRequest(msgspec.Struct):
    id: int
    method: str
    params: Any
    jsonrpc: str = "2.0"


class JsonRpcNotification(msgspec.Struct):
    method: str
    params: Any
    jsonrpc: str = "2.0"


class JsonRpcReply(msgspec.Struct):
    id: int | str
    result: Any
    jsonrpc: str = "2.0"


class JsonRpcRefusal(msgspec.Struct):
    id: int | str
    error: JsonRpcError
    jsonrpc: str = "2.0"


_messages = msgspec.json.Decoder(JsonRpcEnvelope)
errors = msgspec.json.Decoder(JsonRpcError)


class JsonRpc(BaseSession):
    """What both sides have in common: either asks, tells and answers. What is no message is dropped."""

    def call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        return encode(JsonRpcRequest(number, method, as_object(params)))

    def notify(self, method: str, params: Any) -> bytes:
        return encode(JsonRpcNotification(method, as_object(params)))

    def answer(self, number: int | str, result: Any) -> bytes:
        return encode(JsonRpcReply(number, {} if result is None else result))

    def error_response(self, number: int | str, error: PluginError) -> bytes:
        return encode(JsonRpcRefusal(number, _error_object(error)))

    def receive(self, frame: Frame) -> Incoming:
        try:
            message = decode_replacing(_messages, frame)
        except (ValueError, RecursionError) as error:
            final = isinstance(error, LoneSurrogates)
            return Unusable(f"not JSON-RPC: {error}", bytes(frame[:HEAD]), _answered(frame), final)
        if message.jsonrpc != "2.0" or not is_utf8(frame):
            return Unusable("not JSON-RPC 2.0", bytes(frame[:HEAD]), _answered(frame))
        if message.method is not None:
            if message.id is None:
                return messages.Notification(message.method, message.params)
            return messages.Request(message.id, message.method, message.params)
        if not isinstance(message.id, int):
            return Unusable("an answer without a number", bytes(frame[:HEAD]))
        if message.error is not NOTHING and bytes(message.error) != _NULL:
            try:
                errors.decode(message.error)
            except (ValueError, RecursionError) as problem:
                return Unusable(
                    f"an answer with a malformed error: {problem}", bytes(frame[:HEAD]), message.id
                )
            return Response(message.id, error=message.error)
        return (
            self.bare(message.id, frame)
            if message.result is NOTHING
            else Response(message.id, message.result)
        )

    def bare(self, number: int, frame: Frame) -> Incoming:
        """An answer with neither result nor error: `null`, to most."""
        return Response(number, msgspec.Raw(_NULL))

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        error = errors.decode(answer.error)
        told = f"it answered {method!r} with error {error.code}: {bounded(error.message)}"
        return CallFailed(told, error=msgspec.to_builtins(error))


def _answered(frame: Frame) -> int | None:
    """Which request a broken answer is meant for, where its beginning or its end still tells."""
    found = _ANSWER_BEGINS.match(frame[:_NEAR]) or _ANSWER_ENDS.search(frame[-_NEAR:])
    return None if found is None else int(found[1])


def as_object(params: Any) -> Any:
    """Never null: real plugins cannot read that."""
    return {} if params is ABSENT or params is None else params


def _error_object(error: PluginError) -> JsonRpcError:
    if isinstance(error, CallFailed):  # another plugin's own words, passed on
        try:
            return msgspec.convert(error.error, JsonRpcError)
        except msgspec.ValidationError:
            return JsonRpcError(INTERNAL_ERROR, error.message)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), INTERNAL_ERROR)
    return JsonRpcError(code, error.message)
