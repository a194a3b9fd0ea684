"""PluginDelegate: connects the instances of a plugin to the plugin, its dispatcher and the logs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from plughost.engine.caller import Caller
from plughost.errors import PluginError, Stopped
from plughost.wire.messages import Notification
from plughost.wire.method_description import MethodDescription

if TYPE_CHECKING:
    from plughost.engine.instance import Instance
    from plughost.engine.link import OpenLink
    from plughost.plugin import Plugin


class PluginDelegate:
    """The InstanceDelegate of a plugin.

    It refers to the plugin weakly. The event loop refers to running processes; if those referred to their
    host, a host that the program has dropped would never be garbage collected and would never end.
    """

    def __init__(self, plugin: Plugin, instances: dict[Instance, None]) -> None:
        self._plugin = weakref.ref(plugin)
        self._instances = instances
        self.redactor = plugin.redactor

    async def prepare(self) -> OpenLink:
        if (plugin := self._plugin()) is None:
            raise Stopped("the host has ended")
        return await plugin.prepare()

    def on_retired(self, instance: Instance) -> None:
        if (plugin := self._plugin()) is not None:
            plugin.on_retired(instance)

    def on_gone(self, instance: Instance) -> None:
        self._instances.pop(instance, None)
        if (plugin := self._plugin()) is not None:
            plugin.on_gone()

    def kill_reason(self) -> PluginError | None:
        plugin = self._plugin()
        return None if plugin is None else plugin.kill_reason()

    def pinned(self) -> bool:
        plugin = self._plugin()
        return plugin is not None and plugin.pinned

    def on_started(self, caller: Caller) -> None:
        if (plugin := self._plugin()) is not None:
            caller.belongs_to(plugin)
            plugin.on_started(caller)

    def on_described(self, methods: Sequence[MethodDescription]) -> None:
        if (plugin := self._plugin()) is not None:
            plugin.on_described(methods)

    def on_exited(self, instance: Instance, failure: PluginError | None) -> None:
        if (plugin := self._plugin()) is not None:
            plugin.on_exited(instance, failure)

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        if (plugin := self._plugin()) is None:
            raise Stopped("the host has ended")
        return await plugin.dispatcher.serve(caller, method, params)

    def on_notification(self, caller: Caller, notification: Notification) -> bool:
        plugin = self._plugin()
        return plugin is not None and plugin.dispatcher.take_notification(caller, notification)

    def on_stderr(self, caller: Caller, lines: list[str]) -> None:
        if (plugin := self._plugin()) is not None:
            try:
                plugin.logs.on_stderr(caller, lines)
            except Exception as error:  # the program's own log service
                caller.warn(f"the host failed to log stderr: {type(error).__name__}: {error}")

    def on_denials(self, caller: Caller, records: list[bytes]) -> None:
        if (plugin := self._plugin()) is not None:
            plugin.report_denials(caller, records)
