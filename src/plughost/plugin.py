"""A Plugin: a name that calls go to, and the router that says which process answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from plughost._util.callbacks import weak_callback
from plughost._util.redaction.redactor import Redactor
from plughost.clock import Clock
from plughost.contracts.base import Contract, ResolvedSpec
from plughost.contracts.resolve import check_runnable, resolve_in_thread, sandbox_class
from plughost.engine.instance import Instance
from plughost.engine.launcher.errors import as_launch_failure
from plughost.engine.launcher.launch import Launch
from plughost.engine.progress import OnEvent
from plughost.engine.session import Session
from plughost.engine.supervisor import State
from plughost.engine.tap import Origin, Tap, Tapping
from plughost.errors import BudgetExceeded, Malformed, PluginError, Stopped, UnknownMethod
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.reception import HostCallDispatcher
from plughost.sandbox.explain.lints import lints
from plughost.sandbox.memory.meter import MeteredTree
from plughost.sandbox.plan import SandboxPlan
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT, NOTHING, Response, decode

if TYPE_CHECKING:
    from plughost.host import Host

T = TypeVar("T")


class Plugin:
    """A name that calls go to. Which process answers is the router's business."""

    def __init__(
        self,
        host: Host,
        spec: PluginSpec,
        contract: Contract,
        binding: ResolvedSpec,
        confinement: SandboxPlan | None,
        failure: PluginError | None = None,
    ) -> None:
        """Without a `confinement`, for the reason of `failure`, each start prepares it first."""
        self._unprepared: PluginError | None = None
        self.name = spec.name
        self.contract = contract.name
        self._host = host
        self._contract = contract
        self._adopt(spec, binding, confinement, failure)
        self._per_call = binding.policy.one_shot
        self._generation = 1
        self._current: Instance | None = None
        self._instances: set[Instance] = set()
        """Everything that is not gone yet: the current one, those draining, those of running calls."""
        self.hidden = Redactor()
        """What was given to it and must not be shown, whatever it says."""
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
    def accepting_calls(self) -> bool:
        """Whether what is called now need not wait for another process, or fail for want of one: not while
        it owes the answer to a call that was cancelled."""
        current = self._current
        return not self._stopped and (current is None or current.accepting_calls)

    @property
    def generation(self) -> int:
        """Rises by one with every reload."""
        return self._generation

    @property
    def folder(self) -> str | None:
        """Its own folder, which tells it from another plugin of its name; None without one."""
        return self._binding.folder

    @property
    def eager(self) -> bool:
        """Whether it starts with its host, not with its first call."""
        return self._binding.policy.eager

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it may, all in all."""
        return self._binding.capabilities

    @property
    def operators_word(self) -> OperatorAccess:
        """What the operator has named himself: only that reaches private addresses and files."""
        return self._binding.operator

    @property
    def sandbox(self) -> str:
        """How its processes are confined: strict, landlock or none."""
        return sandbox_class(self.spec, self._contract)

    @property
    def confinement(self) -> SandboxPlan | None:
        """What was decided for it, and what holds it to that; None while it could not be prepared."""
        return self._confinement

    @property
    def failure(self) -> PluginError | None:
        """Why it does not run: what its last process failed with, or why none could be prepared."""
        current = self._current
        return (None if current is None else current.last_failure) or self._unprepared

    @property
    def confined_by(self) -> tuple[str, ...]:
        """What the running process reported to hold it; nothing before it runs."""
        return () if self._current is None else self._current.confined_by

    @property
    def topics(self) -> tuple[str, ...]:
        """What it is subscribed to whenever it runs."""
        return self._binding.topics

    @property
    def provides(self) -> Mapping[str, tuple[str, ...]]:
        """What it has for others, by kind."""
        return self._binding.provides

    @property
    def settings(self) -> Any:
        """What its contract has made of its spec, for the contract's own view."""
        return self._binding.settings

    def log(self, what: str) -> None:
        """A line of the host's own in its log."""
        noted = getattr(self._host.service("logs"), "noted", None)
        if noted is not None:
            noted(self, what)

    @property
    def clock(self) -> Clock:
        return self._host._clock

    def pin(self, reason: object) -> None:
        """While there is a reason, it is not ended for being idle."""
        self._pins.add(reason)

    def unpin(self, reason: object) -> None:
        self._pins.discard(reason)

    @overload
    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Mapping[str, str] | None = ...,
        type: type[T],
        on_event: OnEvent | None = ...,
        priority: bool = ...,
    ) -> T: ...

    @overload
    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Mapping[str, str] | None = ...,
        type: Any = ...,
        on_event: OnEvent | None = ...,
        priority: bool = ...,
    ) -> Any: ...

    async def call(
        self,
        method: str,
        params: Any = ABSENT,
        *,
        timeout: float | None = None,
        context: Mapping[str, str] | None = None,
        type: Any = Any,
        on_event: OnEvent | None = None,
        priority: bool = False,
    ) -> Any:
        """The plugin's result, decoded as `type`: msgspec.Raw is not at all, Answer the whole answer.

        CallFailed when the plugin answers with an error of its own; another PluginError when there
        is no answer. `timeout` counts from now; without it the contract's own applies. What the plugin
        says of the call before its answer goes to `on_event`, in its order and as it came. A task that is
        cancelled in here with a text tells that to the plugin as the reason.
        `priority` goes before what waits to be sent, but after what is urgent.
        """
        if self._methods is not None and method not in self._methods:
            raise UnknownMethod(f"it declares no method {method!r}", plugin=self.name)
        instance = self._current
        if instance is None:
            instance = self._route()
        try:
            pending = instance.submit(method, params, timeout, context, priority)
        except PluginError as error:
            error.plugin = self.name
            if self._per_call:
                instance.stop()
            raise
        if on_event is not None:
            pending.on_event = on_event
        try:
            answer = await pending
        except (asyncio.CancelledError, GeneratorExit) as gone:
            pending.owner.withdraw(pending, _reason(gone))  # it may have moved to another instance meanwhile
            raise
        if answer.error is not NOTHING:
            raise pending.owner.failure(pending, answer)
        if type is msgspec.Raw:
            return answer.result
        if type is Response:
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
        await instance.wait_ready()

    async def reload(self) -> None:
        """Start a new generation, move calls over once it is ready, let the old one finish its own.

        What its manifest says now counts, its command too where the manifest told it. If the new one cannot
        be or does not start, all stays as it was and the failure is raised. A plugin that is not running, or
        is quarantined, is only given a fresh start for its next call.
        """
        async with self._reloading:  # a second reload replaces what the first one made
            await self._reload()

    async def _reload(self) -> None:
        if self._stopped:
            raise Stopped("the host has stopped it", plugin=self.name)
        old, before = self._current, (self.spec, self._binding, self._confinement, self._unprepared)
        undo = self._host._sandboxes.checkpoint(self.name)
        await self._rebind()
        self._generation += 1
        if old is None or old.state not in (State.RUNNING, State.SPAWNING, State.BACKOFF):
            self._current = None
            if old is not None:
                old.drain(None)
            return
        new = self._instance()
        try:
            new.start()
            await new.wait_ready()
        except BaseException:
            new.stop()
            if old in self._instances:  # else there is nothing that could stay as it was
                undo()
                self._adopt(*before)
            raise
        meanwhile, self._current = self._current, new
        for replaced in {old, meanwhile or old}:  # the old one may have ended, and a call started another
            replaced.drain(new)

    async def _rebind(self) -> None:
        """What is on disk now counts: a new manifest comes with a new program."""
        spec = self.spec
        with as_launch_failure("cannot prepare it", self.name):
            binding = await resolve_in_thread(self._contract, spec)
        if self._stopped:  # meanwhile
            raise Stopped("the host has stopped it", plugin=self.name)
        follows = spec.command_is_told and tuple(spec.command) == self._binding.told_command
        if follows and binding.told_command is not None:
            spec = msgspec.structs.replace(spec, command=binding.told_command)
        check_runnable(spec, binding)
        self._adopt(spec, binding, await self._host._sandboxes.confine(spec, binding))

    async def _prepare(self) -> Launch:
        """What its next process is launched with, made ready if it is not yet."""
        async with self._reloading:
            if self._launch is None:
                spec, binding = self.spec, self._binding
                try:
                    confinement = await self._host._sandboxes.confine(spec, binding)
                except PluginError as error:
                    self._unprepared = error
                    raise
                self._adopt(spec, binding, confinement)
            assert self._launch is not None
            return self._launch

    def _adopt(
        self,
        spec: PluginSpec,
        binding: ResolvedSpec,
        confinement: SandboxPlan | None,
        failure: PluginError | None = None,
    ) -> None:
        """What its next process is, and may."""
        self.spec = spec
        self._binding = binding
        self._methods = binding.methods
        self._confinement = confinement
        self._unprepared = failure
        self._launch: Launch | None = None
        self._watched: MeteredTree | None = None
        if confinement is None:
            return
        launch = confinement.launch
        mode = self._host._launch_mode if launch.mode == "auto" else launch.mode  # some cannot do without it
        self._launch = msgspec.structs.replace(launch, launcher=self._host._launcher, mode=mode)
        if (limit := confinement.metered_memory) is not None:
            self._watched = MeteredTree(
                limit, weak_callback(self._roots, ()), weak_callback(self._over_memory)
            )

    def _roots(self) -> list[int]:
        """The launchers of all its processes."""
        return [instance.pid for instance in self._instances if instance.pid is not None]

    def _over_memory(self, used: int) -> None:
        self.fail_all(self._too_much(f"it used {used >> 20} MiB of memory, more than the limit of"))

    def _over_its_group(self) -> BudgetExceeded | None:
        if not self._host._sandboxes.was_oom_killed(self.name):
            return None
        return self._too_much("the kernel ended it: its control group was at the memory limit of")

    def _too_much(self, what: str) -> BudgetExceeded:
        limit = (self.spec.limits.memory or 0) >> 20
        return BudgetExceeded(f"{what} {limit} MiB", hint="if it needs more, raise limits.memory")

    def fail_all(self, cause: PluginError) -> None:
        """End its processes by force, now; whoever waits for an answer learns `cause` when they are gone."""
        for instance in [*self._instances]:
            instance.on_fatal(cause)

    async def stop(self) -> None:
        """End it, gracefully first. Open calls fail at once; so does every later one."""
        self._stopped = True
        for instance in [*self._instances]:
            instance.stop()
        await asyncio.gather(*(instance.gone() for instance in [*self._instances]))
        await self._host._sandboxes.release(self.name)

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
            "sandbox": self.sandbox,
            "lints": [*self._binding.lints, *lints(self.spec, self.sandbox)],
            "state": self.state,
            "failure": None if (failure := self.failure) is None else failure.report(),
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
                    "confined_by": list(instance.confined_by),
                    "in_flight": instance.in_flight,
                    "waiting": instance.waiting,
                    "stopping": instance.stopping,
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
        offered = frozenset(
            method
            for method, reverse in self._contract.reverse.items()
            if host.service(reverse.service.partition(".")[0]) is not None
        )
        binding = msgspec.structs.replace(self._binding, offered=offered)
        session = self._contract.session(self.spec, binding)
        instance = Instance(
            self.name,
            self._generation,
            self._launch,
            self._binding.policy.capped(host._max_grace),
            session,
            clock=host._clock,
            events=host._events,
            home=HostCallDispatcher(self),
            processes=host._processes,
            tapping=None if host._tap is None else self._tapping(host._tap, session),
        )
        self._instances.add(instance)
        return instance

    def _tapping(self, tap: Tap, session: Session) -> Tapping:
        origin = Origin(self.name, self.contract, type(session.framing()).__name__, self._generation)
        return Tapping(tap, origin, asyncio.get_running_loop())

    def _retired(self, instance: Instance) -> None:
        """It takes no more calls; the next one starts another."""
        if self._current is instance:
            self._current = None


def _reason(gone: BaseException) -> str:
    told = gone.args[0] if gone.args else None
    return told if isinstance(told, str) and told else "cancelled"
