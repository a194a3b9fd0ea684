"""The seam between the engine and a contract: what a conversation means, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from plughost.errors import CallFailed, InvalidSpec, Malformed, PluginError
from plughost.wire.framing import Frame, FrameError, Framing
from plughost.wire.messages import Notification, Progress, Request, Response, Unusable

Incoming = Response | Progress | Request | Notification | Unusable | Malformed | None
"""What a frame means. Malformed fails the oldest open call; None means the session dealt with it."""


class Session(Protocol):
    """One instance's conversation, over as many processes as the instance lives through.

    A PluginError raised from `receive` or `broken` ends the process; it is why the instance failed.
    """

    errors: Mapping[type[PluginError], type[PluginError]]
    """The contract's own spelling of the engine's errors."""
    ready: bool
    """Whether calls may be written."""
    first_id: int
    """The first id for calls; those below are the session's own."""
    lints: Sequence[str]
    """What of the handshake was accepted, but should be better. Told once it is ready."""

    def framing(self) -> Framing:
        """A new framing for a new process."""

    def on_start(self, first: str | None) -> Sequence[bytes]:
        """A process was started, for a call of the method `first` or for none: what to say to it."""

    def receive(self, frame: Frame) -> Incoming:
        """Take one frame. It may set `ready`."""

    def on_ready(self) -> Sequence[bytes]:
        """Called once after `ready` came true: what to send before any call."""

    def on_bad_frame(self, error: FrameError) -> Incoming:
        """Take bytes that make no frame, in their place among the frames."""

    def call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        """A call as a message."""

    def cancel(self, number: int, reason: str) -> bytes | None:
        """Ask the plugin to stop working on a call that nobody waits for any more; it owes an answer all the
        same. None when the contract has no word for that."""

    def notify(self, method: str, params: Any) -> bytes:
        """A notification as a message."""

    def event(self, topic: str, payload: bytes) -> bytes:
        """Something published on a topic, as a message for a subscriber."""

    def answer(self, number: int | str, result: Any) -> bytes:
        """The host's answer to a plugin's request."""

    def error_response(self, number: int | str, error: PluginError) -> bytes:
        """The host's refusal of a plugin's request."""

    def on_unknown_response(self, answer: Response, head: bytes) -> Incoming:
        """Take an answer to something that was never asked; `head` is how its frame begins."""

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        """The plugin's own error, as an exception."""

    def shutdown_request(self) -> tuple[str, Any] | None:
        """The call that asks the plugin to end before its stdin closes, if the contract has one."""

    def shutdown_messages(self) -> Sequence[bytes]:
        """What it is told, without an answer, just before its stdin closes."""

    def health_request(self) -> tuple[str, Any] | None:
        """The call that asks the plugin whether it is well; None when to run is to be well."""

    def on_health_response(self, answer: Response) -> None:
        """Take what it said to that. Any answer is a sign of life."""


class BaseSession:
    """What most contracts answer to most questions; a session overrides what is its own."""

    errors: Mapping[type[PluginError], type[PluginError]] = {}
    ready = True
    first_id = 1
    lints: Sequence[str] = ()

    def on_start(self, first: str | None) -> Sequence[bytes]:
        return ()

    def on_ready(self) -> Sequence[bytes]:
        return ()

    def on_bad_frame(self, error: FrameError) -> Incoming:
        raise Malformed(error.message, head=error.head)

    def on_unknown_response(self, answer: Response, head: bytes) -> Incoming:
        return Unusable(f"an answer to {answer.id}, which was never asked", head)

    def cancel(self, number: int, reason: str) -> bytes | None:
        return None

    def notify(self, method: str, params: Any) -> bytes:
        raise InvalidSpec("plugins of this contract are sent no notifications")

    def event(self, topic: str, payload: bytes) -> bytes:
        raise InvalidSpec("plugins of this contract are told no events")

    def answer(self, number: int | str, result: Any) -> bytes:
        raise InvalidSpec("plugins of this contract ask the host nothing")

    def error_response(self, number: int | str, error: PluginError) -> bytes:
        raise InvalidSpec("plugins of this contract ask the host nothing")

    def shutdown_request(self) -> tuple[str, Any] | None:
        return None

    def shutdown_messages(self) -> Sequence[bytes]:
        return ()

    def health_request(self) -> tuple[str, Any] | None:
        return None

    def on_health_response(self, answer: Response) -> None:
        """Nothing was asked."""
