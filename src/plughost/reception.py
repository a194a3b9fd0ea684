"""Where a plugin's processes turn to: what they ask of the host, what they tell it, what becomes of them."""

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
    from plughost.engine.launcher.launch import Launch
    from plughost.plugin import Plugin
    from plughost.sandbox.denials.classify import Denial


class HostCallDispatcher:
    """A plugin as its instances hold it, weakly: the event loop holds what runs, and were that to hold its
    host, a host that nobody else holds would never end."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = weakref.ref(plugin)
        self._instances = plugin._instances
        self.hidden = plugin.hidden

    async def prepare(self) -> Launch:
        if (plugin := self._plugin()) is None:
            raise Stopped("the host has ended")
        return await plugin._prepare()

    def retired(self, instance: Instance) -> None:
        if (plugin := self._plugin()) is not None:
            plugin._retired(instance)

    def gone(self, instance: Instance) -> None:
        self._instances.discard(instance)
        if (plugin := self._plugin()) is not None and all(
            left.generation == plugin.generation for left in self._instances
        ):
            plugin._host._sandboxes.drop_old_generation(plugin.name)

    def held_to_account(self) -> PluginError | None:
        plugin = self._plugin()
        return None if plugin is None else plugin._over_its_group()

    def pinned(self) -> bool:
        plugin = self._plugin()
        return plugin is not None and bool(plugin._pins)

    def joined(self, caller: Caller) -> None:
        plugin = self._plugin()
        if plugin is None:
            return
        caller.belongs_to(plugin)
        if plugin._watched is not None:
            plugin._host._sandboxes.meter.started(plugin._watched)
        for name in {reverse.service.partition(".")[0] for reverse in plugin._contract.reverse.values()}:
            welcome = getattr(plugin._host.service(name), "joined", None)
            if welcome is not None:
                try:
                    welcome(caller)
                except Exception as error:
                    caller.warn(f"the {name} service failed to take it in: {type(error).__name__}: {error}")

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        plugin = self._plugin()
        if plugin is None:
            raise Stopped("the host has ended")
        reverse = plugin._contract.reverse.get(method)
        if reverse is None or reverse.notification:
            raise UnknownMethod(f"method not found: {method[:200]}")
        try:
            answer, value = _asked(plugin, reverse, params)
            result = await answer(caller, value)
        except Denied as error:
            _note(plugin, caller, method, reverse, error)
            raise
        return result if reverse.result is None else reverse.result(result)

    def on_notification(self, caller: Caller, notification: Notification) -> bool:
        plugin = self._plugin()
        reverse = None if plugin is None else plugin._contract.reverse.get(notification.method)
        if plugin is None or reverse is None or not reverse.notification:
            return False
        try:
            take, value = _asked(plugin, reverse, notification.params)
            take(caller, value)
        except Denied as error:
            caller.warn(f"{notification.method}: {error.message}")
            _note(plugin, caller, notification.method, reverse, error)
        except PluginError as error:  # nobody waits for an answer, so the operator is told
            caller.warn(f"{notification.method}: {error.message}")
        except Exception as error:  # a service's own fault must not end the conversation
            caller.warn(f"the host failed to take {notification.method!r}: {type(error).__name__}: {error}")
        return True

    def overhear(self, caller: Caller, lines: list[str]) -> None:
        plugin = self._plugin()
        overheard = None if plugin is None else getattr(plugin._host.service("logs"), "overheard", None)
        if overheard is None:
            return  # a log of the embedding program's own, without stderr
        try:
            overheard(caller, lines)
        except Exception as error:
            caller.warn(f"the host failed to log stderr: {type(error).__name__}: {error}")

    def refused(self, caller: Caller, records: list[bytes]) -> None:
        plugin = self._plugin()
        denied = None if plugin is None else getattr(plugin._host.service("logs"), "denied", None)
        if plugin is None or denied is None:
            return
        granting = plugin._binding.granting

        def tell(denial: Denial | None) -> None:
            from plughost.sandbox.denials.classify import format_denial

            try:
                denied(caller, *format_denial(denial, granting))
            except Exception as error:
                caller.warn(f"the host failed to log a denial: {type(error).__name__}: {error}")

        if (confinement := plugin.confinement) is not None:
            plugin._host._sandboxes.report_denials(
                plugin.name, records, caller.generation, confinement.visible_access, tell
            )


def _asked(plugin: Plugin, reverse: HostMethod, params: msgspec.Raw) -> tuple[Callable[..., Any], Any]:
    """Whoever serves it, and the params as it wants them. What it may is asked before all else."""
    if reverse.capability is not None and not capabilities.allows(plugin.capabilities, reverse.capability):
        raise Denied(f"capability denied: {reverse.capability}")
    name, _, part = reverse.service.partition(".")
    service = plugin._host.service(name)
    if service is None:
        raise UnknownMethod(f"this host offers no {name!r} service")
    try:
        value = msgspec.json.decode(params or b"{}", type=reverse.params)
    except (ValueError, RecursionError) as error:
        if reverse.checks and not any(
            capabilities.allows(plugin.capabilities, word) for word in reverse.checks
        ):
            raise Denied(f"capability denied: {name}") from None
        raise InvalidSpec(f"wrong params: {error}") from error
    return getattr(service, part) if part else service, value


def _note(plugin: Plugin, caller: Caller, method: str, reverse: HostMethod, error: Denied) -> None:
    """For the operator, who can grant it: what was refused, and which grant would allow it."""
    denied = getattr(plugin._host.service("logs"), "denied", None)
    if denied is not None:
        words = (reverse.capability,) if reverse.capability is not None else reverse.checks
        hint = error.hint or f"to allow it, its manifest must ask for {' or '.join(words)}, and you grant it"
        denied(caller, f"{method}: {error.message}", hint)
