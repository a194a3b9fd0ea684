"""PeerOwner: the callbacks of a peer to its instance, which makes the decisions."""

from __future__ import annotations

from typing import Protocol

from plughost.engine.pending_call import CallOwner, PendingCall
from plughost.errors import Malformed, PluginError
from plughost.wire.messages import Notification, Response


class PeerOwner(CallOwner, Protocol):
    """The instance, as its peer sees it."""

    def on_wanted(self) -> None:
        """A call waits and no process is running."""

    def on_ready(self) -> None:
        """The handshake is done."""

    def on_answer(self, pending: PendingCall, answer: Response) -> None:
        """A call was answered (one-shot policies only: with others the peer resolves the call at once)."""

    def on_timeout(self, pending: PendingCall) -> None:
        """The deadline of a call has passed."""

    def on_call_failed(self, pending: PendingCall, error: PluginError) -> None:
        """The stream of a call has failed, so that this call fails alone."""

    def on_excess(self, pending: PendingCall, why: str) -> None:
        """A call has sent more progress events than it may."""

    def on_stopping(self, until: float | None) -> None:
        """The plugin must answer the first of its cancelled calls until this time; None when it has answered
        all of them."""

    def on_settled(self) -> None:
        """A call is done, no other is open, and no further one is sent."""

    def on_fatal(self, error: PluginError) -> None:
        """The conversation cannot continue: the process must be killed."""

    def on_malformed(self, pending: PendingCall, error: Malformed) -> None:
        """The plugin sent something malformed, and this call fails for it."""

    def on_dropped(self, what: str, head: bytes) -> None:
        """The peer dropped something that the plugin sent."""

    def on_notification(self, notification: Notification) -> None:
        """The plugin sent a notification, and the rate limit allows it."""
