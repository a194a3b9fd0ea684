"""ManagedPlugins: the plugins that an operator has asked a host to run, also while they are stopped."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import sandbox_class
from plughost.engine.supervisor import State
from plughost.errors import InvalidSpec, PluginError, Timeout
from plughost.host import Host
from plughost.metrics import PluginMetrics
from plughost.plugin import Plugin
from plughost.spec import PluginSpec

LoadSpecs = Callable[[], Iterable[PluginSpec]]
"""Reads the operator's configuration again. It is called in a thread."""


class Changes(msgspec.Struct):
    """What a reload of the configuration did, by plugin name."""

    added: list[str] = msgspec.field(default_factory=list)
    changed: list[str] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    """Why a plugin could not be added, changed or removed. A plugin that runs goes on as it was."""


class AbsentPlugin(NamedTuple):
    """A plugin that is not in the host: it was stopped, or could not be added."""

    spec: PluginSpec
    failure: PluginError | None = None
    """Why it could not be added; None if it was stopped."""
    metrics: PluginMetrics | None = None
    """What was measured of it, to go on from when it is started again."""

    def document(self, now: float) -> dict[str, Any]:
        """What is known of it, in the format of `Plugin.inspect`."""
        return {
            "name": self.spec.name,
            "contract": self.spec.contract,
            "sandbox": sandbox_class(self.spec, get_contract(self.spec.contract)),
            "state": State.STOPPED.value if self.failure is None else "NotAdded",
            "failure": None if self.failure is None else self.failure.report(),
            "generation": 0,
            "metrics": None if self.metrics is None else self.metrics.snapshot(now),
            "instances": [],
        }


class ManagedPlugins:
    """The plugins of a host by name: those that run, and those that were stopped or could not be added,
    which a start or a reload adds again."""

    def __init__(self, host: Host, load: LoadSpecs | None = None, *, start_all: bool = True) -> None:
        """`load` returns the plugins of the operator's configuration, for `reload_all`. With `start_all`,
        plugins that it adds are started; otherwise only eager ones."""
        self.host = host
        self._load = load
        self._start_all = start_all
        self._specs: dict[str, PluginSpec] = {}
        """The specs of the configuration, as they were loaded."""
        self._absent: dict[str, AbsentPlugin] = {}
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._restarting: set[str] = set()
        self._pins: dict[object, str] = {}
        """The names of plugins that are pinned, by reason."""
        self._reloading = asyncio.Lock()

    async def add(self, spec: PluginSpec) -> Plugin:
        """Add a plugin of the configuration without starting it. One that fails is kept, to be added
        later."""
        self._specs[spec.name] = spec
        async with self._lock(spec.name):
            return await self._add(spec)

    async def find(self, name: str | None, timeout: float | None = None) -> Plugin:
        """The plugin of that name; waits while it is restarted, for `timeout` seconds. InvalidSpec if
        there is none, the reason if it could not be added."""
        if name in self._restarting:
            try:
                async with asyncio.timeout(timeout), self._lock(name):
                    pass
            except TimeoutError:
                raise Timeout(f"it is still being restarted after {timeout:g} s", plugin=name or "") from None
        plugin = self.host.plugins.get(name or "")
        if plugin is not None:
            return plugin
        failure = self._known(name).failure
        if failure is not None:
            raise failure.copy()
        raise InvalidSpec("it is stopped", plugin=name or "", hint=f"start it with `plughost start {name}`")

    async def start(self, name: str) -> None:
        """Start a plugin, also one that was stopped or has failed, and wait until it is ready."""
        async with self._lock(name):
            plugin = self.host.plugins.get(name)
            if plugin is None:
                plugin = await self._add_again(name)
            elif plugin.state == State.QUARANTINED.value:
                await plugin.reload()
            await plugin.start()

    async def stop(self, name: str) -> None:
        """Stop a plugin, also one whose start hangs. It can be started again."""
        if (plugin := self.host.plugins.get(name)) is not None:
            await plugin.stop()  # ends a start, which holds the lock until then
        async with self._lock(name):
            await self._stop(name)

    async def restart(self, name: str) -> None:
        """Stop a plugin and start it again. Calls that come meanwhile wait."""
        async with self._lock(name):
            self._restarting.add(name)
            try:
                if name in self.host.plugins:
                    await self._stop(name)
                await (await self._add_again(name)).start()
            finally:
                self._restarting.discard(name)

    async def reload(self, name: str) -> None:
        """Start a new generation of a plugin. One that was stopped or could not be added is added and
        started."""
        async with self._lock(name):
            plugin = self.host.plugins.get(name)
            if plugin is not None:
                await plugin.reload()
            else:
                await (await self._add_again(name)).start()

    async def reload_all(self) -> Changes:
        """Read the configuration again, and add, change and remove what has changed in it. Nothing changes if
        it cannot be read; a change that fails is tried again by the next reload."""
        if self._load is None:
            raise InvalidSpec("this host has no configuration file", hint="name the plugin to reload")
        async with self._reloading:  # the configuration that was read last is carried out last
            return await self._reload_all(self._load)

    async def _reload_all(self, load: LoadSpecs) -> Changes:
        specs = {spec.name: spec for spec in await asyncio.to_thread(load)}
        before, self._specs = self._specs, specs
        changes = Changes()
        removed, added = before.keys() - specs.keys(), specs.keys() - before.keys()
        failed = {name for name, absent in self._absent.items() if absent.failure is not None}
        changed = {
            name for name in before.keys() & specs.keys() if before[name] != specs[name] or name in failed
        }
        await asyncio.gather(
            *(self._carry_out(changes, changes.removed, self._remove, name) for name in removed),
            *(self._carry_out(changes, changes.added, self._add_and_start, name) for name in added),
            *(self._carry_out(changes, changes.changed, self._change, name) for name in changed),
        )
        self._specs.update({name: before[name] for name in changed & changes.failed.keys()})
        return changes

    async def documents(self, *, usage: bool = True) -> list[dict[str, Any]]:
        """All plugins as `Plugin.inspect` and, with `usage`, `Plugin.usage` describe them, sorted by name:
        they are added concurrently, so the order of arrival means nothing."""
        plugins = self.host.plugins.values()
        added = [{**each.inspect(), **(await each.usage() if usage else {})} for each in plugins]
        absent = [each.document(self._now()) for each in self._absent.values()]
        return sorted([*added, *absent], key=lambda each: str(each["name"]))

    def absent(self, name: str) -> dict[str, Any] | None:
        """The document of a plugin that is not in the host; None if there is no such plugin."""
        return self._absent[name].document(self._now()) if name in self._absent else None

    def check_known(self, name: str | None) -> None:
        """InvalidSpec if there is no such plugin, neither in the host nor stopped."""
        if name not in self.host.plugins and name not in self._restarting:
            self._known(name)

    def state(self, name: str) -> dict[str, Any]:
        """The state of a plugin, and why it does not run, as `Plugin.inspect` has them."""
        plugin = self.host.plugins.get(name)
        if plugin is not None:
            failure = plugin.failure
            return {"state": plugin.state, "failure": None if failure is None else failure.report()}
        document = self.absent(name) or {"state": State.STOPPED.value, "failure": None}
        return {"state": document["state"], "failure": document["failure"]}

    @contextmanager
    def pinned(self, name: str) -> Iterator[None]:
        """A context in which a plugin is not stopped for idleness, also after a restart."""
        reason = object()
        self._pins[reason] = name
        if (plugin := self.host.plugins.get(name)) is not None:
            plugin.pin(reason)
        try:
            yield
        finally:
            del self._pins[reason]
            if (plugin := self.host.plugins.get(name)) is not None:
                plugin.unpin(reason)

    # Changes of one plugin; its lock is held

    async def _add_again(self, name: str) -> Plugin:
        return await self._add(self._known(name).spec)

    async def _add(self, spec: PluginSpec) -> Plugin:
        before = self._absent.get(spec.name)
        metrics = None if before is None else before.metrics
        try:
            plugin = await self.host.add(spec, start=False, keep=True)
        except PluginError as error:
            if spec.name not in self.host.plugins:
                self._absent[spec.name] = AbsentPlugin(spec, error, metrics)
            raise
        self._absent.pop(spec.name, None)
        if metrics is not None:
            plugin.metrics.continue_from(metrics)
        for reason, name in self._pins.items():
            if name == spec.name:
                plugin.pin(reason)
        return plugin

    async def _stop(self, name: str) -> None:
        plugin = self.host.plugins.get(name)
        if plugin is None:
            self._absent[name] = self._known(name)._replace(failure=None)
        else:
            await self.host.remove(name)
            self._absent[name] = AbsentPlugin(self._specs.get(name, plugin.spec), metrics=plugin.metrics)

    def _known(self, name: str | None) -> AbsentPlugin:
        if name not in self._absent:
            raise InvalidSpec(f"there is no plugin {name!r} here", hint="`plughost ps` lists the plugins")
        return self._absent[name]

    # Changes of the configuration

    async def _carry_out(
        self, changes: Changes, done: list[str], change: Callable[[str], Any], name: str
    ) -> None:
        async with self._lock(name):
            try:
                await change(name)
                done.append(name)
            except PluginError as error:
                changes.failed[name] = f"{error.code}: {error.message}"

    async def _remove(self, name: str) -> None:
        if name in self.host.plugins:
            await self.host.remove(name)
        self._absent.pop(name, None)

    async def _add_and_start(self, name: str) -> None:
        plugin = await self._add(self._specs[name])
        if self._start_all or plugin.eager:
            await plugin.start()

    async def _change(self, name: str) -> None:
        spec, plugin = self._specs[name], self.host.plugins.get(name)
        if plugin is None:
            self._absent[name] = absent = self._absent.get(name, AbsentPlugin(spec))._replace(spec=spec)
            if absent.failure is not None:  # otherwise the operator has stopped it
                await self._add_and_start(name)
        elif plugin.contract == spec.contract:
            await plugin.reload(spec)
        else:
            await self.host.remove(name)
            await self._add_and_start(name)

    def _now(self) -> float:
        return self.host.context.clock.time()

    def _lock(self, name: str | None) -> asyncio.Lock:
        lock = self._locks.get(name or "")
        if lock is None:
            lock = self._locks[name or ""] = asyncio.Lock()
        return lock
