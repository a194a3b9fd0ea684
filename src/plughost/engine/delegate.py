"""InstanceDelegate: the callbacks of an instance to the plugin it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost.engine.caller import Caller
from plughost.errors import PluginError
from plughost.wire.messages import Notification
from plughost.wire.method_description import MethodDescription

if TYPE_CHECKING:
    from plughost.engine.instance import Instance
    from plughost.engine.link import OpenLink


class InstanceDelegate(Protocol):
    """The owner of an instance: prepares its launch, serves its requests and takes its output."""

    redactor: Redactor
    """Redacts secrets from everything that its processes say."""

    async def prepare(self) -> OpenLink:
        """Prepare the start of a process, such as its sandbox; raises LaunchFailed when that fails."""

    def on_retired(self, instance: Instance) -> None:
        """The instance takes no more calls."""

    def on_gone(self, instance: Instance) -> None:
        """The instance and all its processes have ended."""

    def on_started(self, caller: Caller) -> None:
        """A process was started; its handshake is not done yet."""

    def on_described(self, methods: Sequence[MethodDescription]) -> None:
        """A handshake told what can be called."""

    def on_exited(self, instance: Instance, failure: PluginError | None) -> None:
        """A process has ended, or could not be started; `failure` is None if the host had asked for that."""

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        """Answer a request of a process to the host; raises PluginError to refuse it."""

    def on_notification(self, caller: Caller, notification: Notification) -> bool:
        """Handle a notification of a process, in order; False when no service handles it."""

    def kill_reason(self) -> PluginError | None:
        """Why the kernel killed the process, if it was over its memory limit; otherwise None."""

    def pinned(self) -> bool:
        """Whether the plugin must not be stopped for idleness."""

    def on_stderr(self, caller: Caller, lines: list[str]) -> None:
        """Take lines that a process wrote to its stderr."""

    def on_denials(self, caller: Caller, records: list[bytes]) -> None:
        """Take denial records: what the sandbox's watcher saw refused to a process."""
