"""Host: the embedding API. A program creates a Host, adds plugins to it and calls them."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from plughost._util.callbacks import weak_callback
from plughost._util.seconds import check_seconds
from plughost._util.text import truncate
from plughost.catalogue import Catalogue, CatalogueEntry
from plughost.clock import Clock, best_clock
from plughost.contracts.registry import get_contract, loadable_contracts
from plughost.contracts.resolve import check_runnable, resolve_in_thread
from plughost.engine.io.tap import Tap
from plughost.engine.launcher.errors import as_launch_failure
from plughost.engine.launcher.launch import MODES, raise_fd_limit
from plughost.engine.link import Link
from plughost.errors import InvalidSpec, LaunchFailed, SandboxUnavailable, Stopped
from plughost.events import Event, EventHub, EventKind, Subscription
from plughost.handshake_store import HandshakeStore
from plughost.host_context import HostContext
from plughost.plugin import Plugin
from plughost.sandbox.manager import SandboxManager
from plughost.sandbox.plan import SandboxPlan
from plughost.services.base import Service, ServiceContext
from plughost.services.registry import ServiceRegistry
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.sandbox.egress.connection import Connection

__all__ = ["Host", "Plugin", "Service"]


class Host:
    """Runs plugins, each in its own process. `async with Host() as host:` stops all of them at the end.

    `clock` is for tests. `launcher` and `launch_mode` choose the program that starts processes and ends their
    descendants (`plughost doctor` shows what works here). `tap` sees every byte to and from each process: it
    is called with the Origin of each new process and returns a listener, which is called with `out` or `in`
    and the bytes (`plughost.testing.Recorder` records them). `cgroup` is a control group below which
    sandboxed plugins get groups of their own (default: $PLUGHOST_CGROUP). `max_grace` limits the seconds that
    any plugin has to end after it is asked to; a contract's own grace applies where it is shorter.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        launcher: tuple[str, ...] = (),
        launch_mode: str = "auto",
        tap: Tap | None = None,
        cgroup: str | None = None,
        max_grace: float | None = None,
        dry: bool = False,
        handshakes: str | os.PathLike[str] | None = None,
    ) -> None:
        """`dry` is a dry run: plugins are checked but never started, and nothing permanent is created for
        them. `handshakes` is a folder that keeps what handshakes told can be called, for the catalogue."""
        if max_grace is not None:
            check_seconds("max_grace", max_grace)
        if launch_mode not in MODES:
            raise InvalidSpec(f"launch_mode is {truncate(launch_mode)}; expected one of {', '.join(MODES)}")
        raise_fd_limit()
        self._loop = asyncio.get_running_loop()
        self._clock: Clock = clock or best_clock(self._loop)
        self._events = EventHub()
        self._plugins: dict[str, Plugin] = {}
        self._names_being_added: set[str] = set()
        self.catalogue = Catalogue(self._events, self._clock)
        """Everything that can be called on this host."""
        self.catalogue.register(self)
        self._services = ServiceRegistry(ServiceContext(self._events, self._clock, self))
        self._sandboxes = SandboxManager(
            self._clock,
            cgroup or os.environ.get("PLUGHOST_CGROUP"),
            weak_callback(self._log_connection),
            dry_run=dry,
        )
        self.context = HostContext(
            clock=self._clock,
            events=self._events,
            catalogue=self.catalogue,
            handshakes=None if handshakes is None else HandshakeStore(Path(handshakes)),
            services=self._services,
            sandboxes=self._sandboxes,
            launcher=launcher,
            launch_mode=launch_mode,
            max_grace=max_grace,
            tap=tap,
        )
        """What its plugins share."""
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
        """Done when the first call of `close` is."""
        _OPEN_HOSTS.add(self)
        weakref.finalize(self, _kill_abandoned, self.context.links, self._clock, os.getpid())

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """All plugins of this host by name: a copy, which does not change with the host."""
        return dict(self._plugins)

    async def add(
        self,
        target: PluginSpec | str | os.PathLike[str],
        *,
        grants: Sequence[str] | None = None,
        start: bool = True,
        keep: bool = False,
    ) -> Plugin:
        """Add a plugin by its spec or its folder, and check all of it. Eager plugins start, unless
        `start=False`; the others start with their first call.

        The files in a plugin's folder are written by its author and grant nothing. Grant capabilities with
        `grants`, in the contract's syntax, or in a spec.

        A plugin that fails the checks is not added, and neither is an eager one that does not start. To keep
        the latter, and reload it when it is fixed, add it with `start=False` and then start it. With `keep`,
        a plugin for which the machine has no room now (disk, descriptors, memory) is added, too: its
        `failure` says why, and each start tries again.
        """
        self._check_open()
        if isinstance(target, PluginSpec):
            spec = target
        else:  # in a thread: reading an untrusted folder may take long
            spec = await asyncio.to_thread(_load_spec, target)
            self._check_open()
        if grants is not None:
            spec = msgspec.structs.replace(spec, grants=tuple(grants))
        if spec.name in self._plugins or spec.name in self._names_being_added:
            raise InvalidSpec("this host already has a plugin of that name", plugin=spec.name)
        contract = get_contract(spec.contract)
        confinement: SandboxPlan | None = None
        failure: LaunchFailed | None = None
        self._names_being_added.add(spec.name)
        try:
            with as_launch_failure("cannot prepare it", spec.name):
                resolved = await resolve_in_thread(contract, spec)
            check_runnable(spec, resolved)
            self._check_open(spec.name)
            try:
                confinement = await self.context.confine(spec, resolved)
            except LaunchFailed as error:
                if not keep or not _is_temporary(error):
                    raise
                failure = error
            try:
                kept = await self.context.kept_handshake(spec)
                self._check_open(spec.name)
                plugin = Plugin(self.context, spec, contract, resolved, confinement, failure, kept)
                if resolved.log_level is not None:
                    self._services.logs.set_threshold(spec.name, resolved.log_level)
            except BaseException:  # a provided service may raise anything
                await self._sandboxes.release(spec.name)
                raise
            self._plugins[spec.name] = plugin
            self.catalogue.changed(spec.name, plugin.generation)
        finally:
            self._names_being_added.discard(spec.name)
        if start and plugin.eager:
            try:
                await plugin.start()
            except BaseException:
                plugin.kill()
                if self._plugins.get(spec.name) is plugin:
                    await self.remove(spec.name)
                raise
        return plugin

    def _check_open(self, plugin: str = "") -> None:
        if self._closed:
            raise Stopped("this host is closed", plugin=plugin, hint="create another Host")

    async def remove(self, name: str) -> None:
        """Stop a plugin and, once its processes are gone, remove it from the host."""
        if name not in self._plugins:
            raise InvalidSpec("there is no plugin of that name", plugin=name)
        plugin = self._plugins[name]
        await plugin.stop()
        if self._plugins.get(name) is plugin:  # somebody else may have removed it, and added another
            del self._plugins[name]
            self.catalogue.changed(name, plugin.generation)

    def catalogue_entries(self) -> list[CatalogueEntry]:
        """What can be called of its plugins; use `catalogue.entries()`, which has other sources, too."""
        return [entry for plugin in self._plugins.values() for entry in plugin.catalogue_entries()]

    def _log_connection(self, name: str, connection: Connection) -> None:
        plugin = self._plugins.get(name)
        if plugin is not None:
            plugin.report_connection(connection)

    def provide(self, name: str, service: Service | Any) -> None:
        """Register a service for plugins; it replaces the service of that name, and None removes it.

        It is a `Service`, a function that is called with the caller and the params, or an object whose
        methods are called so. The host closes both at its own end. Until then requests to the replaced
        service continue, and the new service may use it.
        """
        self._services.provide(name, service)

    def service(self, name: str) -> Any:
        """The service of that name: the one that was provided, the built-in one, or else one that a contract
        brings; None if there is none."""
        found = self._services.provided(name)
        if found is None and not self._services.is_provided(name):
            for contract in loadable_contracts():
                if name in contract.services:
                    return self._services.find(name, contract.name, contract.services)
        return found

    def events(self, limit: int = 10_000, only: EventKind = Event) -> Subscription:
        """Subscribe to the events of all plugins from now on, or to those of the class or classes `only`. The
        queue holds at most `limit` events; a slow observer loses the oldest."""
        return self._events.subscribe(limit, only)

    def kill(self) -> None:
        """Kill every plugin now, and accept no others. The host must still be closed afterwards."""
        self._closed = True
        for plugin in self._plugins.values():
            plugin.kill()

    async def close(self) -> None:
        """Stop every plugin gracefully and close all services. If it is cancelled, plugins are killed.

        Only the first call does this; further ones wait for its end, and their cancellation kills, too.
        """
        if self._closing is not None:
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError:
                self.kill()
                raise
            return
        self._closing = self._loop.create_future()
        try:
            await self._close()
        finally:
            self._closing.set_result(None)

    async def _close(self) -> None:
        self._closed = True
        plugins = [*self._plugins.values()]
        stopping = asyncio.gather(*(plugin.stop() for plugin in plugins), return_exceptions=True)
        try:
            failures = [outcome for outcome in await asyncio.shield(stopping) if outcome is not None]
        except asyncio.CancelledError:
            for plugin in plugins:
                plugin.kill()
            await asyncio.wait([stopping], timeout=1.0)
            raise
        finally:
            for link in [*self.context.links]:  # whatever went wrong, nothing is left running
                link.kill()
            await self._sandboxes.close()
            await self.context.close()
            self._events.close()
            self._clock.close()
            await self._services.close()
        if failures:
            raise failures[0]


_OPEN_HOSTS: weakref.WeakSet[Host] = weakref.WeakSet()


def kill_all() -> None:
    """Kill every plugin of every host of this thread's event loop now: for a second Ctrl-C."""
    loop = asyncio.get_running_loop()
    for host in [*_OPEN_HOSTS]:
        if host._loop is loop:
            host.kill()


def _is_temporary(error: LaunchFailed) -> bool:
    """Whether the machine is the cause, such as a full disk, so that a later attempt may succeed."""
    return not isinstance(error, SandboxUnavailable) or isinstance(error.__cause__, OSError)


def _load_spec(target: str | os.PathLike[str]) -> PluginSpec:
    from pathlib import Path

    from plughost import config

    return config.load_folder(Path(target))


def _kill_abandoned(links: set[Link], clock: Clock, owner: int) -> None:
    """Kill the processes of a host that was garbage collected unclosed. A forked copy of it owns none."""
    if os.getpid() != owner:
        return
    for link in [*links]:
        link.abandon()
    clock.close()
