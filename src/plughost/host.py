"""The embedding API: a Host of Plugins."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from plughost._util.callbacks import weak_callback
from plughost.clock import Clock, best_clock
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import check_runnable, resolve_in_thread
from plughost.engine.channel import PipeChannel
from plughost.engine.launcher.errors import as_launch_failure
from plughost.engine.launcher.launch import raise_fd_limit
from plughost.engine.process import Process
from plughost.engine.tap import Tap
from plughost.errors import InvalidSpec, LaunchFailed, SandboxUnavailable, Stopped
from plughost.events import Event, EventHub, Subscription
from plughost.plugin import Plugin
from plughost.sandbox.manager import SandboxManager
from plughost.sandbox.plan import SandboxPlan
from plughost.spec import PluginSpec

if TYPE_CHECKING:
    from plughost.sandbox.egress.connection import Connection

__all__ = ["Host", "Plugin", "Service"]

Service = Any
"""Answers what plugins ask of the host: called, or its methods are, with the caller and its params."""


class Host:
    """Runs plugins. Leaving it ends every one of them.

    `clock` is for tests; `launcher` and `launch_mode` choose how processes are held (`plughost doctor`
    shows what works here). `tap` sees every byte to and from each process: it is called with whose process
    was started, and what it returns with `out` or `in` and the bytes (`testkit.Recorder` keeps them).
    `cgroup` names a control group below which confined plugins get groups of their own (without it,
    $PLUGHOST_CGROUP). `max_grace` is the most seconds that any plugin has to end once it is asked to; a
    contract's own grace holds where it is shorter.
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
    ) -> None:
        """`dry`: plugins are only looked at, never started, and nothing lasting is made for them."""
        raise_fd_limit()
        self._loop = asyncio.get_running_loop()
        self._clock: Clock = clock or best_clock(self._loop)
        self._launcher = launcher
        self._launch_mode = launch_mode
        self._tap = tap
        self._events = EventHub()
        self._plugins: dict[str, Plugin] = {}
        self._adding: set[str] = set()
        self._services: dict[str, Service] = {}
        self._replaced: list[tuple[str, Service]] = []
        self._processes: dict[Process, PipeChannel] = {}
        self._sandboxes = SandboxManager(
            self._clock,
            cgroup or os.environ.get("PLUGHOST_CGROUP"),
            weak_callback(self._saw_connection),
            dry_run=dry,
        )
        self._closed = False
        self._max_grace = max_grace
        _OPEN.add(self)
        weakref.finalize(self, _let_go, self._processes, self._clock, os.getpid())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        return dict(self._plugins)

    async def add(
        self,
        target: PluginSpec | str | os.PathLike[str],
        *,
        grants: Sequence[str] | None = None,
        start: bool = True,
        keep: bool = False,
    ) -> Plugin:
        """A plugin from its spec or its folder. Everything is checked; only eager ones start, if at all.

        A folder's own files are its author's word: they grant nothing. What you allow is in `grants`, in the
        contract's words, or in a spec.

        What fails is not added, nor is an eager one that does not start. To keep such a one here, and reload
        it when it is mended, add it with `start=False` and start it then. With `keep`, a plugin that the
        machine has no room for now (disk, descriptors, memory) is added, too: its `failure` says why, and
        each start tries again.
        """
        self._check_open()
        if isinstance(target, PluginSpec):
            spec = target
        else:  # a stranger's files: they do not hold the event loop
            spec = await asyncio.to_thread(_spec_of, target)
            self._check_open()
        if grants is not None:
            spec = msgspec.structs.replace(spec, grants=tuple(grants))
        if spec.name in self._plugins or spec.name in self._adding:
            raise InvalidSpec("a plugin of that name is here already", plugin=spec.name)
        its_contract = get_contract(spec.contract)
        confinement: SandboxPlan | None = None
        failure: LaunchFailed | None = None
        self._adding.add(spec.name)
        try:
            with as_launch_failure("cannot prepare it", spec.name):
                binding = await resolve_in_thread(its_contract, spec)
            check_runnable(spec, binding)
            self._check_open(spec.name)
            try:
                confinement = await self._sandboxes.confine(spec, binding)
            except LaunchFailed as error:
                if not keep or not _may_pass(error):
                    raise
                failure = error
        finally:
            self._adding.discard(spec.name)
        if self._closed:  # meanwhile
            await self._sandboxes.release(spec.name)
        self._check_open(spec.name)
        plugin = Plugin(self, spec, its_contract, binding, confinement, failure)
        if binding.log_level is not None and hasattr(self.service("logs"), "set_threshold"):
            self.service("logs").set_threshold(spec.name, binding.log_level)
        self._plugins[spec.name] = plugin
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
            raise Stopped("this host is closed", plugin=plugin)

    async def remove(self, name: str) -> None:
        """End a plugin and, once it is gone, forget it."""
        if name not in self._plugins:
            raise InvalidSpec("there is no plugin of that name", plugin=name)
        plugin = self._plugins[name]
        await plugin.stop()
        if self._plugins.get(name) is plugin:  # somebody else may have removed it, and added another
            del self._plugins[name]

    def _saw_connection(self, name: str, connection: Connection) -> None:
        plugin = self._plugins.get(name)
        connected = getattr(self.service("logs"), "connected", None)
        if plugin is not None and connected is not None:
            from plughost.sandbox.denials.connections import grant_for

            connected(plugin, connection, grant_for(connection, plugin._binding.granting))

    async def _close_services(self) -> None:
        """Each of them once, whatever becomes of the others; what replaced another before that other."""
        closed: list[Service] = []
        for name, service in [*self._services.items(), *reversed(self._replaced)]:
            close = getattr(service, "close", None)
            if close is None or any(service is each for each in closed):
                continue
            closed.append(service)
            try:
                closing = close()
                if inspect.isawaitable(closing):
                    await closing
            except Exception as error:
                told = {"message": f"the {name} service failed to close", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)

    def provide(self, name: str, service: Service) -> None:
        """Offer plugins a service; it replaces the one of that name.

        The host closes it at its own end, and what it has replaced, too: until then requests that are under
        way there go on, and the new one may be built upon it.
        """
        if self._services.get(name) is not None:
            self._replaced.append((name, self._services[name]))
        self._services[name] = service

    def service(self, name: str) -> Service:
        """The service of that name: what was provided, else the host's own; None when there is none."""
        if name not in self._services:
            from plughost.services.registry import create_builtin

            self._services[name] = create_builtin(name, self)
        return self._services[name]

    def events(self, limit: int = 10_000, only: type[Event] = Event) -> Subscription:
        """Everything that happens to plugins from now on, or one kind of it, in a queue of your own."""
        return self._events.subscribe(limit, only)

    def kill(self) -> None:
        """End every plugin by force, now, and add no others. Close the host afterwards as ever."""
        self._closed = True
        for plugin in self._plugins.values():
            plugin.kill()

    async def close(self) -> None:
        """End every plugin, gracefully; when cancelled, by force."""
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
            for process in [*self._processes]:  # whatever went wrong, nothing is left running
                process.kill()
            await self._sandboxes.close()
            self._events.close()
            self._clock.close()
            await self._close_services()
        if failures:
            raise failures[0]


_OPEN: weakref.WeakSet[Host] = weakref.WeakSet()


def kill_all() -> None:
    """End every plugin of every host of this thread's event loop by force, now: for a second Ctrl-C."""
    loop = asyncio.get_running_loop()
    for host in [*_OPEN]:
        if host._loop is loop:
            host.kill()


def _may_pass(error: LaunchFailed) -> bool:
    """Whether the machine is the reason, and not what was decided about the plugin."""
    return not isinstance(error, SandboxUnavailable) or isinstance(error.__cause__, OSError)


def _spec_of(target: str | os.PathLike[str]) -> PluginSpec:
    from pathlib import Path

    from plughost import config

    return config.load_folder(Path(target))


def _let_go(processes: dict[Process, PipeChannel], clock: Clock, owner: int) -> None:
    """Of a host that nobody holds any more: end what runs. A fork's copy of it owns nothing."""
    if os.getpid() != owner:
        return
    for process, channel in [*processes.items()]:
        process.abandon(channel)
    clock.close()
