"""The plugin's side of vai.rpc.v1, without any I/O: for fakes, and for plugins simulated without a
process."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.contracts.vai import frames
from plughost.contracts.vai.errors import INVALID_FRAME
from plughost.contracts.vai.messages import (
    OPS,
    Cancel,
    Identity,
    PluginHello,
    VaiError,
    VaiEvent,
    VaiRefusal,
    VaiRequest,
    VaiResponse,
    VaiShutdown,
)
from plughost.wire.framing import ContentLength, Frame
from plughost.wire.messages import encode

HostMessage = VaiRequest | Cancel | VaiShutdown
"""A message from the host after both sides have said hello."""


class VaiPluginSide:
    """The state of a plugin's conversation: decodes the host's frames and encodes the plugin's."""

    def __init__(self, package_id: str, version: str) -> None:
        self._identity = Identity(package_id, version)
        self._open: set[str] = set()
        self.ready = False
        self.ended = False

    def framing(self) -> ContentLength:
        return frames.framing()

    def receive(self, frame: Frame) -> tuple[HostMessage | None, list[bytes]]:
        """Decodes a frame. Returns the message for the plugin, if any, and the frames to send back at once.

        Raises InvalidFrame for a frame that violates the protocol.
        """
        envelope = frames.read(frame)
        if not self.ready:
            if envelope.type != "hello" or bytes(envelope.role) != b'"host"':
                raise frames.invalid(
                    f"it began with {envelope.type!r:.100}, expected the hello of a host", frame
                )
            self.ready = True
            return None, [encode(PluginHello(plugin=self._identity))]
        if envelope.type == "request":
            if envelope.id is None:
                raise frames.invalid("a request without an id", frame)
            if envelope.op is None or envelope.op not in OPS.values():
                return None, [self._refusal(envelope.id, "a request without a known op")]
            if not frames.is_object(envelope.body):
                return None, [self._refusal(envelope.id, "missing body")]
            self._open.add(envelope.id)
            return VaiRequest(id=envelope.id, op=envelope.op, body=envelope.body), []
        if envelope.type == "cancel" and envelope.request_id in self._open:
            reason = msgspec.json.decode(envelope.reason or b'""')
            return Cancel(request_id=envelope.request_id, reason=str(reason)), []
        if envelope.type == "shutdown":
            self.ended = True
            return VaiShutdown(), []
        return None, []

    def event(self, request_id: str, event: Any) -> bytes | None:
        """Encodes an event of an open request; None when the request is answered already."""
        return encode(VaiEvent(request_id=request_id, event=event)) if request_id in self._open else None

    def respond(self, request_id: str, body: Any) -> bytes | None:
        """Encodes the one response to a request; None when it is answered already."""
        if request_id not in self._open:
            return None
        self._open.discard(request_id)
        return encode(VaiResponse(id=request_id, body=body))

    def refuse(self, request_id: str, code: str, message: str) -> bytes | None:
        """Encodes an error response, for a request that failed in the protocol itself; None when it is
        answered already."""
        if request_id not in self._open:
            return None
        self._open.discard(request_id)
        return encode(VaiRefusal(id=request_id, error=VaiError(code, message)))

    @staticmethod
    def _refusal(request_id: str, why: str) -> bytes:
        return encode(VaiRefusal(id=request_id, error=VaiError(INVALID_FRAME, why)))
