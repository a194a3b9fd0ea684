"""The host's side of vai.rpc.v1: hello, then requests with their events and responses, then shutdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from plughost._util.text import MAX_VALUE, bounded, truncate
from plughost.contracts.vai import frames
from plughost.contracts.vai.errors import INVALID_FRAME, IdentityMismatch, InvalidFrame
from plughost.contracts.vai.manifest import VaiManifest
from plughost.contracts.vai.messages import (
    OPS,
    Cancel,
    HostHello,
    Identity,
    VaiAbout,
    VaiEnvelope,
    VaiError,
    VaiRequest,
    VaiShutdown,
)
from plughost.contracts.vai.standalone import StandaloneRequest
from plughost.engine.session import BaseSession, Incoming
from plughost.errors import CallFailed, HandshakeFailed, Malformed, PluginError
from plughost.wire.framing import HEAD, ContentLength, Frame, FrameError
from plughost.wire.messages import ABSENT, Progress, Response, Unusable, encode

_PREFIX = "req_"
LONGEST_REASON = 200
_LONGEST_ID = len(_PREFIX) + 18
_OPS = frozenset(OPS.values())
_TRUE, _FALSE = msgspec.Raw(b"true"), msgspec.Raw(b"false")

_errors = msgspec.json.Decoder(VaiError)
_identities = msgspec.json.Decoder(Identity)


class VaiSession(BaseSession):
    """The host's session with one process: checks the plugin's hello and matches responses to requests."""

    errors: Mapping[type[PluginError], type[PluginError]] = {Malformed: InvalidFrame}

    def __init__(self, manifest: VaiManifest, host: VaiAbout) -> None:
        self._identity = Identity(manifest.package_id, manifest.version)
        self._host = host
        self._local = StandaloneRequest(manifest)
        self.ready = False

    def framing(self) -> ContentLength:
        return frames.framing()

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        return (encode(HostHello(host=self._host)),)

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        """Encodes a request: an op with its body, or an export's id, which is invoked standalone, without a
        gateway."""
        op, body = method, {} if params is ABSENT else params
        if method not in _OPS:
            op, body = self._local.request(method, params)
        return encode(VaiRequest(id=f"{_PREFIX}{number}", op=op, body=body))

    def encode_cancel(self, number: int, reason: str) -> bytes | None:
        return encode(Cancel(request_id=f"{_PREFIX}{number}", reason=reason[:LONGEST_REASON]))

    def shutdown_messages(self) -> Sequence[bytes]:
        return (encode(VaiShutdown()),)

    def on_bad_frame(self, error: FrameError) -> Incoming:
        raise InvalidFrame(error.message, head=error.head)

    def receive(self, frame: Frame) -> Incoming:
        envelope = frames.read(frame)
        if not self.ready:
            self._check_hello(envelope)
            self.ready = True
            return None
        if envelope.type == "response":
            return self._response(envelope, frame)
        if envelope.type == "event":
            return self._event(envelope, frame)
        return Unusable(f"a frame of type {truncate(envelope.type)}, which plugins do not send", _head(frame))

    def _check_hello(self, envelope: VaiEnvelope) -> None:
        if envelope.type == "response" and envelope.ok == _FALSE:
            error = _error(envelope)
            raise HandshakeFailed(f"it refused hello: {error.code} {error.message}")
        if envelope.type != "hello" or bytes(envelope.role) != b'"plugin"':
            raise HandshakeFailed(f"it began with {truncate(envelope.type)}, expected the hello of a plugin")
        try:
            hello = _identities.decode(envelope.plugin)
        except (ValueError, RecursionError) as error:
            raise HandshakeFailed(f"its hello has no valid identity: {error}") from error
        if hello != self._identity:
            raise IdentityMismatch(
                f"the program says that it is {truncate(str(hello))}, but its package is "
                f"{str(self._identity)!r}; it was stopped",
                hint="rebuild the program, or correct package_id and version in vai-plugin.toml",
            )

    def _response(self, envelope: VaiEnvelope, frame: Frame) -> Incoming:
        number = _number(envelope.id)
        if number is None:
            return Unusable("a response to a request that was never made", _head(frame))
        if envelope.ok == _TRUE and frames.is_object(envelope.body):
            return Response(number, envelope.body)
        if envelope.ok == _FALSE:
            return Response(number, error=msgspec.Raw(encode(_error(envelope))))
        wrong = "without `ok`" if envelope.ok != _TRUE else "that is ok, without a body"
        return Response(number, error=msgspec.Raw(encode(VaiError(INVALID_FRAME, f"a response {wrong}"))))

    def _event(self, envelope: VaiEnvelope, frame: Frame) -> Incoming:
        number = _number(envelope.request_id)
        if number is None:
            return Unusable("an event of a request that was never made", _head(frame))
        if not frames.is_object(envelope.event):
            return Unusable("an event that is not an object", _head(frame))
        return Progress(number, envelope.event)

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        error = _errors.decode(answer.error)
        message = f"it answered {method!r} with {error.code}: {error.message}"
        return CallFailed(message, error=msgspec.to_builtins(error))


def _number(id: str | None) -> int | None:
    """The call number in a request id; None for an id that this session did not create."""
    if id is None or len(id) > _LONGEST_ID:
        return None
    try:
        number = int(id[len(_PREFIX) :])
    except ValueError:
        return None
    return number if id == f"{_PREFIX}{number}" and number > 0 else None  # only the canonical form


def _error(envelope: VaiEnvelope) -> VaiError:
    try:
        error = _errors.decode(envelope.error)
        return VaiError(bounded(error.code, MAX_VALUE), bounded(error.message))
    except (ValueError, RecursionError):
        return VaiError(INVALID_FRAME, "a response that is not ok, without an error of code and message")


def _head(frame: Frame) -> bytes:
    return bytes(frame[:HEAD])
