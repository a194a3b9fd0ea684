"""HostCallDispatcher: hands the requests, notifications, stderr and sandbox denials of a plugin's processes
to the services of the host."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from plughost.contracts.base import HostMethod
from plughost.engine.caller import Caller
from plughost.errors import Denied, InvalidSpec, PluginError, Stopped, UnknownMethod
from plughost.permissions import capabilities
from plughost.wire.messages import Notification

if TYPE_CHECKING:
    from plughost.engine.instance import Instance
    from plughost.engine.link import OpenLink
    from plughost.plugin import Plugin
    from plughost.sandbox.denials.classify import Denial


class HostCallDispatcher:
    """The InstanceDelegate of a plugin: dispatches calls of its processes to the host's services.

    It refers to the plugin weakly. The event loop refers to running processes; if those referred to their
    host, a host that the program has dropped would never be garbage collected and would never end.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = weakref.ref(plugin)
        self._instances = plugin._instances
        self.redactor = plugin.redactor

    async def prepare(self) -> OpenLink:
        if (plugin := self._plugin()) is None:
            raise Stopped("the host has ended")
        return await plugin._prepare()

    def on_retired(self, instance: Instance) -> None:
        if (plugin := self._plugin()) is not None:
            plugin._on_retired(instance)

    def on_gone(self, instance: Instance) -> None:
        self._instances.discard(instance)
        if (plugin := self._plugin()) is not None and all(
            other.generation == plugin.generation for other in self._instances
        ):
            plugin._host._sandboxes.drop_old_generation(plugin.name)

    def kill_reason(self) -> PluginError | None:
        plugin = self._plugin()
        return None if plugin is None else plugin._oom_kill_error()

    def pinned(self) -> bool:
        plugin = self._plugin()
        return plugin is not None and bool(plugin._pins)

    def on_started(self, caller: Caller) -> None:
        plugin = self._plugin()
        if plugin is None:
            return
        caller.belongs_to(plugin)
        if plugin._metered_tree is not None:
            plugin._host._sandboxes.meter.started(plugin._metered_tree)
        for name in {
            host_method.service.partition(".")[0] for host_method in plugin._contract.host_methods.values()
        }:
            on_join = getattr(plugin._host.service(name), "joined", None)
            if on_join is not None:
                try:
                    on_join(caller)
                except Exception as error:
                    caller.warn(f"the {name} service failed to take it in: {type(error).__name__}: {error}")

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        plugin = self._plugin()
        if plugin is None:
            raise Stopped("the host has ended")
        host_method = plugin._contract.host_methods.get(method)
        if host_method is None or host_method.notification:
            raise UnknownMethod(f"method not found: {method[:200]}")
        try:
            answer, value = _resolve_request(plugin, host_method, params)
            result = await answer(caller, value)
        except Denied as error:
            _log_denial(plugin, caller, method, host_method, error)
            raise
        return result if host_method.result is None else host_method.result(result)

    def on_notification(self, caller: Caller, notification: Notification) -> bool:
        plugin = self._plugin()
        host_method = None if plugin is None else plugin._contract.host_methods.get(notification.method)
        if plugin is None or host_method is None or not host_method.notification:
            return False
        try:
            take, value = _resolve_request(plugin, host_method, notification.params)
            take(caller, value)
        except Denied as error:
            caller.warn(f"{notification.method}: {error.message}")
            _log_denial(plugin, caller, notification.method, host_method, error)
        except PluginError as error:  # there is no answer to carry the error, so the operator is warned
            caller.warn(f"{notification.method}: {error.message}")
        except Exception as error:  # a bug in a service must not end the conversation
            caller.warn(f"the host failed to take {notification.method!r}: {type(error).__name__}: {error}")
        return True

    def on_stderr(self, caller: Caller, lines: list[str]) -> None:
        plugin = self._plugin()
        log_stderr = None if plugin is None else getattr(plugin._host.service("logs"), "overheard", None)
        if log_stderr is None:
            return  # the embedding program provides a log service that takes no stderr
        try:
            log_stderr(caller, lines)
        except Exception as error:
            caller.warn(f"the host failed to log stderr: {type(error).__name__}: {error}")

    def on_denials(self, caller: Caller, records: list[bytes]) -> None:
        plugin = self._plugin()
        denied = None if plugin is None else getattr(plugin._host.service("logs"), "denied", None)
        if plugin is None or denied is None:
            return
        granting = plugin._resolved.permissions.granting

        def log_denial(denial: Denial | None) -> None:
            from plughost.sandbox.denials.classify import format_denial

            try:
                denied(caller, *format_denial(denial, granting))
            except Exception as error:
                caller.warn(f"the host failed to log a denial: {type(error).__name__}: {error}")

        if (confinement := plugin.confinement) is not None:
            plugin._host._sandboxes.report_denials(
                plugin.name, records, caller.generation, confinement.visible_access, log_denial
            )


def _resolve_request(
    plugin: Plugin, host_method: HostMethod, params: msgspec.Raw
) -> tuple[Callable[..., Any], Any]:
    """The service function for a request, and its decoded params. The capability is checked before all
    else."""
    if host_method.capability is not None and not capabilities.allows(
        plugin.capabilities, host_method.capability
    ):
        raise Denied(f"capability denied: {host_method.capability}")
    name, _, part = host_method.service.partition(".")
    service = plugin._host.service(name)
    if service is None:
        raise UnknownMethod(f"this host offers no {name!r} service")
    try:
        value = msgspec.json.decode(params or b"{}", type=host_method.params)
    except (ValueError, RecursionError) as error:
        if host_method.checks and not any(
            capabilities.allows(plugin.capabilities, word) for word in host_method.checks
        ):
            raise Denied(f"capability denied: {name}") from None
        raise InvalidSpec(f"wrong params: {error}") from error
    return getattr(service, part) if part else service, value


def _log_denial(plugin: Plugin, caller: Caller, method: str, host_method: HostMethod, error: Denied) -> None:
    """Log for the operator what was denied, and which grant would allow it."""
    denied = getattr(plugin._host.service("logs"), "denied", None)
    if denied is not None:
        words = (host_method.capability,) if host_method.capability is not None else host_method.checks
        hint = error.hint or f"to allow it, its manifest must ask for {' or '.join(words)}, and you grant it"
        denied(caller, f"{method}: {error.message}", hint)
