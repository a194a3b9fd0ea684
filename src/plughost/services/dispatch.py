"""HostCallDispatcher: hands the requests and notifications of a plugin to the services of the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from plughost.engine.caller import Caller
from plughost.errors import Denied, InvalidSpec, PluginError, UnknownMethod
from plughost.permissions import capabilities
from plughost.permissions.capability import Capability
from plughost.services.base import Handler, LogService, Service
from plughost.services.host_method import HostMethod
from plughost.wire.messages import Notification

MAX_METHOD = 200
"""Characters of a method's name in an error."""


class RequestingPlugin(Protocol):
    """The plugin whose requests are dispatched, as far as the dispatcher needs to know it."""

    @property
    def capabilities(self) -> Iterable[Capability]:
        """The capabilities that it has now; a reload may change them."""

    @property
    def logs(self) -> LogService:
        """Where denials are logged."""

    def find_service(self, name: str) -> Service | None:
        """The service of that name that its host offers to it."""


class HostCallDispatcher:
    """Finds the service of a host method, after it has checked the plugin's capabilities."""

    __slots__ = ("_host_methods", "_plugin")

    def __init__(self, host_methods: Mapping[str, HostMethod], plugin: RequestingPlugin) -> None:
        self._host_methods = host_methods
        self._plugin = plugin

    def offered(self) -> frozenset[str]:
        """The host methods that a service of this host answers."""
        return frozenset(
            method
            for method, host_method in self._host_methods.items()
            if self._plugin.find_service(_service_name(host_method)) is not None
        )

    def on_process_started(self, caller: Caller) -> None:
        """Tell each service that the contract uses. A service that fails harms nobody else."""
        for name in {_service_name(host_method) for host_method in self._host_methods.values()}:
            service = self._plugin.find_service(name)
            if service is not None:
                try:
                    service.on_process_started(caller)
                except Exception as error:
                    caller.warn(f"the {name} service failed to prepare it: {type(error).__name__}: {error}")

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        """Answer a request; raises PluginError to refuse it."""
        host_method = self._host_methods.get(method)
        if host_method is None or host_method.notification:
            raise UnknownMethod(f"method not found: {method[:MAX_METHOD]}")
        try:
            handler, value = self._resolve(host_method, params)
            result = await handler(caller, value)
        except Denied as error:
            self._log_denial(caller, method, host_method, error)
            raise
        return result if host_method.result is None else host_method.result(result)

    def take_notification(self, caller: Caller, notification: Notification) -> bool:
        """Handle a notification, now and in order; False when it is not a host method."""
        host_method = self._host_methods.get(notification.method)
        if host_method is None or not host_method.notification:
            return False
        try:
            handler, value = self._resolve(host_method, notification.params)
            handler(caller, value)
        except Denied as error:
            caller.warn(f"{notification.method}: {error.message}")
            self._log_denial(caller, notification.method, host_method, error)
        except PluginError as error:  # there is no answer to carry the error, so the operator is warned
            caller.warn(f"{notification.method}: {error.message}")
        except Exception as error:  # a bug in a service must not end the conversation
            caller.warn(f"the host failed to take {notification.method!r}: {type(error).__name__}: {error}")
        return True

    def _resolve(self, host_method: HostMethod, params: msgspec.Raw) -> tuple[Handler, Any]:
        """The handler of a request, and its decoded params. The capability is checked before all else."""
        capability = host_method.capability
        if capability is not None and not capabilities.allows(self._plugin.capabilities, capability):
            raise Denied(f"capability denied: {capability}")
        name, _, part = host_method.service.partition(".")
        service = self._plugin.find_service(name)
        if service is None:
            raise UnknownMethod(f"this host offers no {name!r} service")
        try:
            value = msgspec.json.decode(params or b"{}", type=host_method.params)
        except (ValueError, RecursionError) as error:
            checks = host_method.checks
            if checks and not any(capabilities.allows(self._plugin.capabilities, word) for word in checks):
                raise Denied(f"capability denied: {name}") from None
            raise InvalidSpec(f"wrong params: {error}") from error
        return service.handler(part), value

    def _log_denial(self, caller: Caller, method: str, host_method: HostMethod, error: Denied) -> None:
        """Log for the operator what was denied, and which grant would allow it."""
        words = (host_method.capability,) if host_method.capability is not None else host_method.checks
        hint = (
            error.hint
            or f"to allow it, its manifest must ask for {' or '.join(words)}, and you must grant it"
        )
        self._plugin.logs.on_denied(caller, f"{method}: {error.message}", hint)


def _service_name(host_method: HostMethod) -> str:
    return host_method.service.partition(".")[0]
