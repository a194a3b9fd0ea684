"""Service: answers host methods of plugins. LogService: one that also takes what the host sees of plugins.

An embedding program gives `Host.provide` a service, a function, or any object whose methods answer host
methods. `as_service` makes a Service of each.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

import msgspec

from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.errors import PluginError, UnknownMethod
from plughost.events import EventHub, Logged
from plughost.services.plugin_lookup import PluginLookup

Handler = Callable[[Caller, Any], Any]
"""Answers a request: takes the caller and the decoded params. For a request it is a coroutine function; for a
notification a plain function."""


@runtime_checkable
class Service(Protocol):
    """Answers host methods. Derive from `BaseService`."""

    def handler(self, method: str) -> Handler:
        """The function that answers `method`, the part of `HostMethod.service` after the dot; UnknownMethod
        when there is none."""

    def on_process_started(self, caller: Caller) -> None:
        """A process was started whose contract uses this service."""

    async def close(self) -> None:
        """The host ends: give back what the service holds."""


class ServiceContext(msgspec.Struct, frozen=True):
    """What a service may use of its host."""

    events: EventHub
    clock: Clock
    plugins: PluginLookup


ServiceFactory = Callable[[ServiceContext], Service]
"""Makes a service for a host, when it is first used."""


class BaseService:
    """A service whose methods are the handlers, by name."""

    def handler(self, method: str) -> Handler:
        return _method(self, method)

    def on_process_started(self, caller: Caller) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""


class LogSource(Protocol):
    """The plugin that a log line is about: its name and generation."""

    @property
    def name(self) -> str: ...

    @property
    def generation(self) -> int: ...


class EgressConnection(Protocol):
    """A connection of a sandboxed plugin, as the egress proxy reports it."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def asked(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def verdict(self) -> str: ...

    @property
    def why(self) -> str: ...

    @property
    def up(self) -> int: ...

    @property
    def down(self) -> int: ...

    @property
    def seconds(self) -> float: ...


class LogService(BaseService):
    """The service called `logs`, which a host tells what it sees of plugins. Each method does nothing until
    it is overridden."""

    def on_stderr(self, caller: Caller, lines: list[str]) -> None:
        """Take lines that a process wrote to its stderr."""

    def on_denied(self, source: LogSource, what: str, remedy: str) -> None:
        """Take a denial, with the grant that would allow it."""

    def on_connected(self, source: LogSource, connection: EgressConnection, remedy: str) -> None:
        """Take a connection of a sandboxed plugin that has ended or was refused."""

    def on_failed(self, source: LogSource, error: PluginError) -> None:
        """Take the failure of a process: it has crashed, or could not be started."""

    def note(self, source: LogSource, what: str) -> None:
        """Take a remark of the host on a plugin."""

    def set_threshold(self, plugin: str, level: str) -> None:
        """Keep log lines of `plugin` from `level` upwards."""

    def recent(self, plugin: str) -> list[Logged]:
        """The lines that are kept of a plugin, oldest first."""
        return []


def as_service(provided: Any) -> Service:
    """A Service for what a program provides: itself, or an adapter around a function or another object."""
    return provided if isinstance(provided, Service) else _Adapter(provided)


class _Adapter(BaseService):
    """A service around a function, or around an object with methods. Its `close` is called at the end, if it
    has one."""

    def __init__(self, provided: Any) -> None:
        self._provided = provided

    def handler(self, method: str) -> Handler:
        return _method(self._provided, method) if method else _callable(self._provided, "it")

    async def close(self) -> None:
        close = getattr(self._provided, "close", None)
        closing: Awaitable[Any] | None = None if close is None else close()
        if inspect.isawaitable(closing):
            await closing


def _method(service: object, name: str) -> Handler:
    return _callable(getattr(service, name, None) if name.isidentifier() else None, name)


def _callable(found: Any, name: str) -> Handler:
    if not callable(found):
        raise UnknownMethod(f"the service of this host has no method {name!r}")
    handler: Handler = found
    return handler
