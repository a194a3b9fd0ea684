"""Session: the interface between the engine and a contract. It gives messages their meaning, without any
I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from plughost.errors import CallFailed, InvalidSpec, Malformed, PluginError
from plughost.wire.framing import Frame, FrameError, Framing
from plughost.wire.messages import Notification, Progress, Reply, Request, Response, Unusable
from plughost.wire.method_description import MethodDescription

Incoming = Response | Progress | Request | Notification | Reply | Unusable | Malformed | None
"""A decoded frame. A Reply is sent back; Malformed fails the oldest open call; None means that the session
has handled it."""


class Session(Protocol):
    """One instance's conversation, over as many processes as the instance lives through.

    A PluginError raised from `receive` or `on_bad_frame` ends the process and is the instance's failure.
    """

    errors: Mapping[type[PluginError], type[PluginError]]
    """The contract's own classes for errors of the engine."""
    ready: bool
    """Whether the handshake is done, so that calls may be sent."""
    first_id: int
    """The first id for calls; lower ids are for the session itself."""
    answers_cancelled_calls: bool
    """Whether the plugin must answer a call after its cancel message. If so, no other call is sent meanwhile,
    and a plugin that does not answer in time is killed. If not, an answer that still comes is ignored."""
    lints: Sequence[str]
    """Lints of the handshake: what was accepted, but should be better. Reported once it is ready."""
    described: Sequence[MethodDescription]
    """What can be called, as the handshake told; empty when the contract's handshake does not tell."""

    def framing(self) -> Framing:
        """A new framing (message decoder and encoder) for a new process."""

    def on_start(self, first: str | None) -> Sequence[bytes]:
        """A process was started, for a call of the method `first` or for none. Returns the messages to
        send."""

    def receive(self, frame: Frame) -> Incoming:
        """Decode one frame. It may set `ready`."""

    def on_ready(self) -> Sequence[bytes]:
        """Called once after `ready` was set. Returns the messages to send before any call."""

    def on_bad_frame(self, error: FrameError) -> Incoming:
        """Handle bytes that are not a frame, in their order among the frames."""

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        """Encode a call."""

    def encode_cancel(self, number: int, reason: str) -> bytes | None:
        """Encode a cancel message: the plugin shall stop working on a call. None when the contract has no
        such message."""

    def encode_notification(self, method: str, params: Any) -> bytes:
        """Encode a notification."""

    def encode_publication(self, topic: str, payload: bytes) -> bytes:
        """Encode a publication on a topic, for a subscriber."""

    def encode_response(self, number: int | str, result: Any) -> bytes:
        """Encode the host's answer to a plugin's request."""

    def encode_error(self, number: int | str, error: PluginError) -> bytes:
        """Encode an error as the answer to a plugin's request."""

    def on_unknown_response(self, answer: Response, head: bytes) -> Incoming:
        """Handle a response to a request that was never sent; `head` is the beginning of its frame."""

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        """Convert an error response to an exception."""

    def shutdown_request(self) -> tuple[str, Any] | None:
        """The call that asks the plugin to end before its stdin closes, if the contract has one."""

    def shutdown_messages(self) -> Sequence[bytes]:
        """The messages to send just before stdin is closed; they have no answer."""

    def health_request(self) -> tuple[str, Any] | None:
        """The call that asks the plugin whether it is well; None if the contract has none."""

    def on_health_response(self, answer: Response) -> None:
        """Handle the response to the health request. Any response is a sign of life."""


class BaseSession:
    """A base class with the defaults of most contracts; a session overrides what differs."""

    errors: Mapping[type[PluginError], type[PluginError]] = {}
    ready = True
    first_id = 1
    answers_cancelled_calls = True
    lints: Sequence[str] = ()
    described: Sequence[MethodDescription] = ()

    def on_start(self, first: str | None) -> Sequence[bytes]:
        return ()

    def on_ready(self) -> Sequence[bytes]:
        return ()

    def on_bad_frame(self, error: FrameError) -> Incoming:
        raise Malformed(error.message, head=error.head)

    def on_unknown_response(self, answer: Response, head: bytes) -> Incoming:
        return Unusable(f"an answer to {answer.id}, which is not the id of a request", head)

    def encode_cancel(self, number: int, reason: str) -> bytes | None:
        return None

    def encode_notification(self, method: str, params: Any) -> bytes:
        raise InvalidSpec("plugins of this contract are sent no notifications")

    def encode_publication(self, topic: str, payload: bytes) -> bytes:
        raise InvalidSpec("plugins of this contract are sent no events")

    def encode_response(self, number: int | str, result: Any) -> bytes:
        raise InvalidSpec("plugins of this contract send no requests to the host")

    def encode_error(self, number: int | str, error: PluginError) -> bytes:
        raise InvalidSpec("plugins of this contract send no requests to the host")

    def shutdown_request(self) -> tuple[str, Any] | None:
        return None

    def shutdown_messages(self) -> Sequence[bytes]:
        return ()

    def health_request(self) -> tuple[str, Any] | None:
        return None

    def on_health_response(self, answer: Response) -> None:
        """Does nothing: there was no health request."""
