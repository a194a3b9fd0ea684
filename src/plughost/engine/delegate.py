"""What an instance asks of the plugin it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost.engine.caller import Caller
from plughost.errors import PluginError
from plughost.wire.messages import Notification

if TYPE_CHECKING:
    from plughost.engine.instance import Instance
    from plughost.engine.launcher.launch import Launch


class InstanceDelegate(Protocol):
    hidden: Redactor
    """What must not be shown of what its processes say."""

    async def prepare(self) -> Launch:
        """Make ready what a process needs before it can be launched; LaunchFailed when that fails."""

    def retired(self, instance: Instance) -> None:
        """It takes no more calls."""

    def gone(self, instance: Instance) -> None:
        """Nothing of it is left."""

    def joined(self, caller: Caller) -> None:
        """A process is there, and will talk as soon as it is ready."""

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        """Answer what a process asks of the host; PluginError to refuse it."""

    def on_notification(self, caller: Caller, notification: Notification) -> bool:
        """Take what a process tells the host, in its order; False when that is of no concern here."""

    def held_to_account(self) -> PluginError | None:
        """Why the kernel has killed it, where its budget is the reason."""

    def pinned(self) -> bool:
        """Whether it must not be ended for being idle."""

    def overhear(self, caller: Caller, lines: list[str]) -> None:
        """Take what a process wrote to its stderr."""

    def refused(self, caller: Caller, records: list[bytes]) -> None:
        """Take what its watcher says that it was not given."""
