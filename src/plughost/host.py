"""The embedding API: a Host of Plugins; a Plugin is a name and a router over instances."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from plughost import guard
from plughost.base.capability import Capability
from plughost.base.clock import Clock, best_clock
from plughost.base.errors import Denied, InvalidSpec, Malformed, PluginError, Stopped, UnknownMethod
from plughost.base.events import EventHub, Subscription
from plughost.contracts.contract import (
    Binding,
    Contract,
    PluginSpec,
    Reverse,
    check_runnable,
    contract,
)
from plughost.runtime.caller import Caller
from plughost.runtime.channel import PipeChannel
from plughost.runtime.instance import Instance
from plughost.runtime.launch import Launch, raise_fd_limit
from plughost.runtime.process import Process
from plughost.runtime.supervisor import State
from plughost.wire.envelope import ABSENT, NOTHING, Answer, Notification, decode

Service = Any
"""Answers what plugins ask of the host: called, or its methods are, with the caller and its params."""


class Plugin:
    """A name that calls go to. Which process answers is the router's business."""

    def __init__(self, host: Host, spec: PluginSpec, contract: Contract, binding: Binding) -> None:
        self.spec = spec
        self.name = spec.name
        self.contract = contract.name
        self._host = host
        self._contract = contract
        self._binding = binding
        self._methods = binding.methods
        self._launch = Launch(tuple(spec.command), binding.env, spec.cwd, host._launcher, host._launch_mode)
        self._per_call = binding.policy.one_shot
        self._generation = 1
        self._current: Instance | None = None
        self._instances: set[Instance] = set()
        """Everything that is not gone yet: the current one, those draining, those of running calls."""
        self._stopped = False
        self._pins: set[object] = set()
        self._reloading = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Plugin {self.name} ({self.contract}) {self.state}>"

    @property
    def state(self) -> str:
        """The current instance's state, in the words of the lifecycle diagram."""
        if self._stopped:
            return State.STOPPED.value
        return self._current.state.value if self._current is not None else State.IDLE.value

    @property
    def generation(self) -> int:
        """Rises by one with every reload."""
        return self._generation

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it may, all in all."""
        return self._binding.capabilities

    @property
    def topics(self) -> tuple[str, ...]:
        """What it is subscribed to whenever it runs."""
        return self._binding.topics

    @property
    def offers(self) -> Mapping[str, tuple[str, ...]]:
        """What it has for others, by kind."""
        return self._binding.offers

    @property
    def clock(self) -> Clock:
        return self._host._clock

    def pin(self, reason: object) -> None:
        """While there is a reason, it is not ended for being idle."""
        self._pins.add(reason)

    def unpin(self, reason: object) -> None:
        self._pins.discard(reason)

    async def call(
        self,
        method: str,
        params: Any = ABSENT,
        *,
        timeout: float | None = None,
        context: Mapping[str, str] | None = None,
        type: Any = Any,
    ) -> Any:
        """The plugin's result, decoded as `type`: msgspec.Raw is not at all, Answer the whole answer.

        CallFailed when the plugin answers with an error of its own; another PluginError when there
        is no answer. `timeout` counts from now; without it the contract's own applies.
        """
        if self._methods is not None and method not in self._methods:
            raise UnknownMethod(f"it declares no method {method!r}", plugin=self.name)
        instance = self._current
        if instance is None:
            instance = self._route()
        try:
            pending = instance.submit(method, params, timeout, context)
        except PluginError as error:
            error.plugin = self.name
            if self._per_call:
                instance.stop()
            raise
        try:
            answer = await pending
        except (asyncio.CancelledError, GeneratorExit):
            pending.owner.withdraw(pending)  # it may have moved to another instance meanwhile
            raise
        if answer.error is not NOTHING:
            raise pending.owner.failure(pending, answer)
        if type is msgspec.Raw:
            return answer.result
        if type is Answer:
            return answer
        try:
            return decode(answer.result, kind=type)
        except Malformed as error:
            raise pending.owner.garbled(error) from error.__cause__

    def notify(self, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Tell the plugin something, ahead of all else with `urgent`; False when it is not running."""
        return self._current is not None and self._current.notify(method, params, urgent=urgent)

    async def start(self) -> None:
        """Start it before the first call, and wait until it is ready. One process per call needs none."""
        if self._per_call:
            return
        instance = self._current or self._route()
        instance.start()
        await instance.settled()

    async def reload(self) -> None:
        """Start a new generation, move calls over once it is ready, let the old one finish its own.

        If the new one does not start, the old one stays and the failure is raised. A plugin that is
        not running, or is quarantined, is only given a fresh start for its next call.
        """
        async with self._reloading:  # a second reload replaces what the first one made
            await self._reload()

    async def _reload(self) -> None:
        if self._stopped:
            raise Stopped("the host has stopped it", plugin=self.name)
        old = self._current
        self._rebind()
        self._generation += 1
        if old is None or old.state not in (State.RUNNING, State.SPAWNING, State.BACKOFF):
            self._current = None
            if old is not None:
                old.drain(None)
            return
        new = self._instance()
        try:
            new.start()
            await new.settled()
        except BaseException:
            new.stop()
            raise
        meanwhile, self._current = self._current, new
        for replaced in {old, meanwhile or old}:  # the old one may have ended, and a call started another
            replaced.drain(new)

    def _rebind(self) -> None:
        """What is on disk now counts: a new manifest comes with a new program."""
        binding = self._contract.bind(self.spec)
        check_runnable(self.spec, binding)
        self._binding = binding
        self._methods = binding.methods
        self._launch = msgspec.structs.replace(self._launch, env=binding.env)

    async def stop(self) -> None:
        """End it, gracefully first. Open calls fail at once; so does every later one."""
        self._stopped = True
        for instance in [*self._instances]:
            instance.stop()
        await asyncio.gather(*(instance.gone() for instance in [*self._instances]))

    def kill(self) -> None:
        """End it by force, now."""
        self._stopped = True
        for instance in [*self._instances]:
            instance.kill()

    def inspect(self) -> dict[str, Any]:
        """What it is and how it is doing, for people and scripts."""
        policy = self._binding.policy
        return {
            "name": self.name,
            "contract": self.contract,
            "command": list(self.spec.command),
            "cwd": self.spec.cwd,
            "env": sorted(self._binding.env),
            "grants": list(self.spec.grants),
            "capabilities": sorted(map(str, self.capabilities)),
            "lints": list(self._binding.lints),
            "state": self.state,
            "generation": self._generation,
            "lifecycle": {
                "start": "per call" if policy.one_shot else "eager" if policy.eager else "first call",
                "call_timeout": policy.call_timeout,
                "max_in_flight": policy.max_in_flight,
                "grace": policy.grace,
                "respawn": policy.respawn,
            },
            "instances": [
                {
                    "generation": instance.generation,
                    "state": instance.state.value,
                    "pid": instance.pid,
                    "held_by": instance.held_by,
                    "in_flight": instance.in_flight,
                    "waiting": instance.waiting,
                    "dropped": instance.dropped,
                    "failures": instance.failures,
                }
                for instance in sorted(self._instances, key=lambda instance: instance.generation)
            ],
        }

    # The router

    def _route(self) -> Instance:
        """The instance for the next call: its own, or the one that serves all."""
        if self._stopped:
            raise Stopped("the host has stopped it", plugin=self.name)
        instance = self._instance()
        if not self._per_call:
            self._current = instance
        return instance

    def _instance(self) -> Instance:
        host = self._host
        instance = Instance(
            self.name,
            self._generation,
            self._launch,
            self._binding.policy,
            self._contract.session(self.spec, self._binding),
            clock=host._clock,
            events=host._events,
            home=_Home(self),
            processes=host._processes,
        )
        self._instances.add(instance)
        return instance

    # What its processes want

    def _retired(self, instance: Instance) -> None:
        """It takes no more calls; the next one starts another."""
        if self._current is instance:
            self._current = None

    def _joined(self, caller: Caller) -> None:
        caller.belongs_to(self)
        for name in {reverse.service.partition(".")[0] for reverse in self._contract.reverse.values()}:
            welcome = getattr(self._host.service(name), "joined", None)
            if welcome is not None:
                try:
                    welcome(caller)
                except Exception as error:
                    caller.warn(f"the {name} service failed to take it in: {type(error).__name__}: {error}")

    async def _serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        reverse = self._contract.reverse.get(method)
        if reverse is None or reverse.notification:
            raise UnknownMethod(f"method not found: {method[:200]}")
        answer, value = self._ask(reverse, params)
        result = await answer(caller, value)
        return result if reverse.result is None else reverse.result(result)

    def _hear(self, caller: Caller, notification: Notification) -> bool:
        reverse = self._contract.reverse.get(notification.method)
        if reverse is None or not reverse.notification:
            return False
        try:
            take, value = self._ask(reverse, notification.params)
            take(caller, value)
        except PluginError as error:  # nobody waits for an answer, so the operator is told
            caller.warn(f"{notification.method}: {error.message}")
        except Exception as error:  # a service's own fault must not end the conversation
            caller.warn(f"the host failed to take {notification.method!r}: {type(error).__name__}: {error}")
        return True

    def _overhear(self, caller: Caller, lines: list[str]) -> None:
        overheard = getattr(self._host.service("logs"), "overheard", None)
        if overheard is None:
            return  # a log of the embedding program's own, without stderr
        try:
            overheard(caller, lines)
        except Exception as error:
            caller.warn(f"the host failed to log stderr: {type(error).__name__}: {error}")

    def _ask(self, reverse: Reverse, params: msgspec.Raw) -> tuple[Callable[..., Any], Any]:
        """Whoever serves it, and the params as it wants them. What it may is asked before all else."""
        if reverse.capability is not None and not guard.allows(self.capabilities, reverse.capability):
            raise Denied(f"capability denied: {reverse.capability}")
        name, _, part = reverse.service.partition(".")
        service = self._host.service(name)
        if service is None:
            raise UnknownMethod(f"this host offers no {name!r} service")
        try:
            value = msgspec.json.decode(params or b"{}", type=reverse.params)
        except (ValueError, RecursionError) as error:
            if reverse.checks and not any(guard.allows(self.capabilities, word) for word in reverse.checks):
                raise Denied(f"capability denied: {name}") from None
            raise InvalidSpec(f"wrong params: {error}") from error
        return getattr(service, part) if part else service, value


class _Home:
    """A plugin as its instances hold it: the event loop holds what runs, and were that to hold its host,
    a host that nobody else holds would never end."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = weakref.ref(plugin)
        self._instances = plugin._instances

    def retired(self, instance: Instance) -> None:
        if (plugin := self._plugin()) is not None:
            plugin._retired(instance)

    def gone(self, instance: Instance) -> None:
        self._instances.discard(instance)

    def joined(self, caller: Caller) -> None:
        if (plugin := self._plugin()) is not None:
            plugin._joined(caller)

    async def serve(self, caller: Caller, method: str, params: msgspec.Raw) -> Any:
        plugin = self._plugin()
        if plugin is None:
            raise Stopped("the host has ended")
        return await plugin._serve(caller, method, params)

    def hear(self, caller: Caller, notification: Notification) -> bool:
        plugin = self._plugin()
        return plugin is not None and plugin._hear(caller, notification)

    def pinned(self) -> bool:
        plugin = self._plugin()
        return plugin is not None and bool(plugin._pins)

    def overhear(self, caller: Caller, lines: list[str]) -> None:
        if (plugin := self._plugin()) is not None:
            plugin._overhear(caller, lines)


class Host:
    """Runs plugins. Leaving it ends every one of them.

    `clock` is for tests; `launcher` and `launch_mode` choose how processes are held (`plughost doctor`
    shows what works here).
    """

    def __init__(
        self, *, clock: Clock | None = None, launcher: tuple[str, ...] = (), launch_mode: str = "auto"
    ) -> None:
        raise_fd_limit()
        self._clock: Clock = clock or best_clock(asyncio.get_running_loop())
        self._launcher = launcher
        self._launch_mode = launch_mode
        self._events = EventHub()
        self._plugins: dict[str, Plugin] = {}
        self._services: dict[str, Service] = {}
        self._processes: dict[Process, PipeChannel] = {}
        self._closed = False
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

    async def add(self, target: PluginSpec | str | os.PathLike[str]) -> Plugin:
        """A plugin from its spec or its folder. Everything is checked; only eager ones start."""
        if self._closed:
            raise Stopped("this host is closed")
        spec = target if isinstance(target, PluginSpec) else _spec_of(target)
        if spec.name in self._plugins:
            raise InvalidSpec("a plugin of that name is here already", plugin=spec.name)
        its_contract = contract(spec.contract)
        binding = its_contract.bind(spec)
        check_runnable(spec, binding)
        plugin = Plugin(self, spec, its_contract, binding)
        if binding.log_level is not None and hasattr(self.service("logs"), "set_threshold"):
            self.service("logs").set_threshold(spec.name, binding.log_level)
        self._plugins[spec.name] = plugin
        if plugin._binding.policy.eager:
            await plugin.start()
        return plugin

    async def remove(self, name: str) -> None:
        """End a plugin and, once it is gone, forget it."""
        if name not in self._plugins:
            raise InvalidSpec("there is no plugin of that name", plugin=name)
        plugin = self._plugins[name]
        await plugin.stop()
        if self._plugins.get(name) is plugin:  # somebody else may have removed it, and added another
            del self._plugins[name]

    async def _close_services(self) -> None:
        """Each of them, whatever becomes of the others."""
        for name, service in self._services.items():
            close = getattr(service, "close", None)
            if close is None:
                continue
            try:
                closing = close()
                if inspect.isawaitable(closing):
                    await closing
            except Exception as error:
                told = {"message": f"the {name} service failed to close", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)

    def provide(self, name: str, service: Service) -> None:
        """Offer plugins a service; it replaces the one of that name."""
        self._services[name] = service

    def service(self, name: str) -> Service:
        """The service of that name: what was provided, else the host's own; None when there is none."""
        if name not in self._services:
            from plughost.services.registry import own

            self._services[name] = own(name, self)
        return self._services[name]

    def events(self, limit: int = 10_000) -> Subscription:
        """Everything that happens to plugins from now on, in a bounded queue of your own."""
        return self._events.subscribe(limit)

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
            self._events.close()
            self._clock.close()
            await self._close_services()
        if failures:
            raise failures[0]


def _spec_of(target: str | os.PathLike[str]) -> PluginSpec:
    from pathlib import Path

    from plughost import config

    return config.of_folder(Path(target))


def _let_go(processes: dict[Process, PipeChannel], clock: Clock, owner: int) -> None:
    """Of a host that nobody holds any more: end what runs. A fork's copy of it owns nothing."""
    if os.getpid() != owner:
        return
    for process, channel in [*processes.items()]:
        process.abandon(channel)
    clock.close()
