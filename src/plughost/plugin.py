"""Plugin: a named plugin that can be called, and the routing of its calls to a process (an Instance)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import msgspec

from plughost._util.callbacks import weak_callback
from plughost._util.nearest import did_you_mean
from plughost._util.redaction.redactor import Redactor
from plughost._util.seconds import check_seconds
from plughost.catalogue import CatalogueEntry, describe, redact_methods
from plughost.clock import Clock
from plughost.contracts.base import Contract, ResolvedSpec
from plughost.contracts.plugin_calls import CallOptions
from plughost.contracts.registry import CLIENTS
from plughost.contracts.resolve import check_runnable, resolve_in_thread, sandbox_class
from plughost.engine.caller import Caller
from plughost.engine.instance import Instance
from plughost.engine.io.tap import Origin, Tap, Tapping
from plughost.engine.launcher.errors import as_launch_failure
from plughost.engine.link import OpenLink
from plughost.engine.progress import OnEvent
from plughost.engine.session import Session
from plughost.engine.supervisor import State
from plughost.errors import BudgetExceeded, InvalidSpec, Malformed, PluginError, Stopped, UnknownMethod
from plughost.metrics import BATCH, PluginMetrics
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.plugin_delegate import PluginDelegate
from plughost.plugin_inspection import inspect_plugin
from plughost.sandbox.memory.meter import MeteredTree
from plughost.sandbox.memory.process_tree import cpu_seconds, memory_of
from plughost.sandbox.plan import SandboxPlan
from plughost.services.base import LogService, Service
from plughost.services.dispatch import HostCallDispatcher
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT, NOTHING, Response, decode
from plughost.wire.method_description import MAX_METHODS, MethodDescription

if TYPE_CHECKING:
    from plughost.host_context import HostContext
    from plughost.sandbox.denials.classify import Denial
    from plughost.sandbox.egress.connection import Connection

T = TypeVar("T")


class Plugin:
    """A plugin of a host: call it, reload it, stop it. Which of its processes answers a call is decided here:
    the current instance, a new one after a reload, or one process per call."""

    def __init__(
        self,
        context: HostContext,
        spec: PluginSpec,
        contract: Contract,
        resolved: ResolvedSpec,
        confinement: SandboxPlan | None,
        failure: PluginError | None = None,
        handshake: tuple[MethodDescription, ...] = (),
    ) -> None:
        """`confinement` is None if the sandbox could not be prepared, for the reason in `failure`: then each
        start tries to prepare it first."""
        self._prepare_failure: PluginError | None = None
        self.name = spec.name
        self.contract = contract.name
        self._context = context
        self._contract = contract
        self._set_spec(spec, resolved, confinement, failure)
        self._one_shot = resolved.policy.one_shot
        self._generation = 1
        self._current: Instance | None = None
        self._instances: dict[Instance, None] = {}
        """All instances that have not ended: the current one, those draining, those of one-shot calls."""
        self.redactor = Redactor()
        """Redacts the secrets that were given to the plugin from everything that it says."""
        self._stopped = False
        self._pins: dict[object, None] = {}
        self._handshake = handshake
        """What the last handshake told can be called. It stays when the process ends."""
        self.dispatcher = HostCallDispatcher(contract.host_methods, self)
        """Hands the requests of its processes to the services of the host."""
        self._reloading = asyncio.Lock()
        self.metrics = PluginMetrics()
        """What is measured of it: calls, latencies, restarts, the last error."""
        self._latencies = self.metrics.latencies.recent
        self._time = context.clock.time

    def __repr__(self) -> str:
        return f"<Plugin {self.name} ({self.contract}) {self.state}>"

    @property
    def state(self) -> str:
        """The state of the current instance, as named in the lifecycle diagram (`State`)."""
        if self._stopped:
            return State.STOPPED.value
        return self._current.state.value if self._current is not None else State.IDLE.value

    @property
    def accepting_calls(self) -> bool:
        """Whether a call made now can be served by the current process, or by one that the call starts. False
        while the process has not answered a cancelled call."""
        current = self._current
        return not self._stopped and (current is None or current.accepting_calls)

    @property
    def generation(self) -> int:
        """The number of the current generation: 1 at first, one more with every reload."""
        return self._generation

    @property
    def folder(self) -> str | None:
        """The plugin's own folder, which tells it from another plugin of the same name; None if it has
        none."""
        return self._resolved.folder

    @property
    def eager(self) -> bool:
        """Whether it starts as soon as it is added, not with its first call."""
        return self._resolved.policy.eager

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities granted to this plugin: declared by its manifest and granted by the operator."""
        return self._resolved.permissions.capabilities

    @property
    def operator_access(self) -> OperatorAccess:
        """Access that the operator granted by name: private addresses and files need such a grant."""
        return self._resolved.permissions.operator

    @property
    def sandbox(self) -> str:
        """The sandbox class of its processes: strict, landlock or none."""
        return sandbox_class(self.spec, self._contract)

    @property
    def confinement(self) -> SandboxPlan | None:
        """The sandbox plan: what its processes may access, and what enforces that. None if it could not be
        prepared."""
        return self._confinement

    @property
    def failure(self) -> PluginError | None:
        """Why it does not run: the failure of its last process, or why no process could be prepared; or
        None."""
        current = self._current
        return (None if current is None else current.last_failure) or self._prepare_failure

    @property
    def confined_by(self) -> tuple[str, ...]:
        """The sandbox mechanisms that the running process reported, such as `seccomp`; empty before it
        runs."""
        return () if self._current is None else self._current.confined_by

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that each of its processes is subscribed to from the start."""
        return self._resolved.topics

    @property
    def provides(self) -> Mapping[str, tuple[str, ...]]:
        """What it exports for other plugins and the program, such as actions, by kind."""
        return self._resolved.provides

    @property
    def settings(self) -> Any:
        """The contract's own settings of this plugin, for the contract's typed client."""
        return self._resolved.settings

    def catalogue_entries(self) -> list[CatalogueEntry]:
        """What can be called of it, as its manifest, its last handshake and the operator say."""
        sources = (
            ("manifest", self._resolved.described),
            ("handshake", self._handshake),
            ("operator", self.spec.methods),
        )
        return describe(self.name, self.contract, sources)

    def client(self) -> Any:
        """The typed client of its contract, called with this plugin: for ainb, `Ainb(plugin)`. InvalidSpec if
        the contract has none."""
        return CLIENTS.get(self.contract)(self)

    def log(self, what: str) -> None:
        """Add a line of the host to the plugin's log."""
        self.logs.note(self, what)

    @property
    def logs(self) -> LogService:
        """The log service of its host."""
        return self._context.services.logs

    @property
    def clock(self) -> Clock:
        """The clock of its host."""
        return self._context.clock

    def pin(self, reason: object) -> None:
        """Keep the plugin from being stopped for idleness until `unpin` is called with the same `reason`."""
        self._pins[reason] = None

    def unpin(self, reason: object) -> None:
        """Undo `pin`."""
        self._pins.pop(reason, None)

    @overload
    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        type: type[T],
        **options: Unpack[CallOptions],
    ) -> T: ...

    @overload
    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        type: Any = ...,
        **options: Unpack[CallOptions],
    ) -> Any: ...

    async def call(  # noqa: PLR0912 every call goes through it: a helper for each branch would cost
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
        """Call a method and return its result, decoded as `type`. With `type=msgspec.Raw` the result is not
        decoded; with `type=Response` the whole response is returned.

        Raises CallFailed when the plugin answers with an error of its own, and another PluginError when there
        is no answer. `timeout` is in seconds from now; default: the contract's; `math.inf`: no timeout.
        Events that the plugin sends for this call before its answer go to `on_event`, in order and undecoded.
        If the task is cancelled with a message, the plugin gets it as the reason. A call with `priority` is
        sent before waiting calls, but after urgent notifications.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        if self._methods is not None and method not in self._methods:
            raise UnknownMethod(
                f"it declares no method {method!r}{did_you_mean(method, self._methods)}", plugin=self.name
            )
        instance = self._current
        if instance is None:
            instance = self._route()
        try:
            pending = instance.submit(method, params, timeout, context, priority)
        except PluginError as error:
            self._on_refused(instance, error)
            raise
        if on_event is not None:
            pending.on_event = on_event
        try:
            answer = await pending
        except (asyncio.CancelledError, GeneratorExit) as error:
            # Not `instance`: a reload may have moved the call to another one.
            pending.owner.withdraw(pending, _cancel_reason(error))
            self.metrics.cancelled += 1
            raise
        except PluginError as error:
            self._latencies.append((now := self._time()) - pending.began)
            self.metrics.on_call_failed(error, now)
            self._report_call(method, now - pending.began, error)
            raise
        latencies = self._latencies
        latencies.append((now := self._time()) - pending.began)
        if len(latencies) >= BATCH:
            self.metrics.latencies.count_recent()
        if answer.error is not NOTHING:
            failure = pending.owner.failure(pending, answer)
            self.metrics.on_call_failed(failure, now)
            self._report_call(method, now - pending.began, failure)
            raise failure
        if self._context.call_observers:
            self._report_call(method, now - pending.began, None)
        if type is msgspec.Raw:
            return answer.result
        if type is Response:
            return answer
        try:
            return decode(answer.result, kind=type)
        except Malformed as error:
            raise pending.owner.undecodable(error) from error.__cause__

    def _report_call(self, method: str, seconds: float, error: PluginError | None) -> None:
        """Tell the program's observers of calls. Their bugs are not the caller's."""
        for observe in self._context.call_observers:
            try:
                observe(self.name, self.contract, method, seconds, error)
            except Exception as bug:
                context = {"message": "an observer of calls failed", "exception": bug}
                asyncio.get_running_loop().call_exception_handler(context)

    def _on_refused(self, instance: Instance, error: PluginError) -> None:
        """A call was not submitted."""
        error.plugin = self.name
        if not isinstance(error, InvalidSpec):  # which is the caller's mistake
            self.metrics.refused += 1
            self.metrics.on_call_failed(error, self._time())
        if self._one_shot:
            instance.stop()

    def notify(self, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Send a notification, with `urgent` before everything that waits to be sent. False if the plugin is
        not running."""
        return self._current is not None and self._current.notify(method, params, urgent=urgent)

    async def start(self) -> None:
        """Start the process before the first call and wait until it is ready. Does nothing for a plugin that
        has one process per call."""
        if self._one_shot:
            return
        instance = self._current or self._route()
        instance.start()
        await instance.wait_ready()

    async def reload(self, spec: PluginSpec | None = None) -> None:
        """Start a new generation, move waiting calls to it once it is ready, and let the old process finish
        its own calls.

        The manifest is read again, and so is the command if it came from the manifest. With a `spec`, of the
        same name and contract, the new generation runs by that. If the new generation
        does not start, everything stays as it was and the failure is raised. If the plugin is not running, or
        is quarantined, nothing is started: the next call starts the new generation.
        """
        async with self._reloading:  # a second reload replaces the result of the first
            await self._reload(spec or self.spec)

    async def _reload(self, spec: PluginSpec) -> None:
        if self._stopped:
            raise Stopped("the host has stopped it", plugin=self.name)
        if (spec.name, spec.contract) != (self.name, self.contract):
            raise InvalidSpec("a reload cannot change the name or the contract", plugin=self.name)
        old, before = self._current, (self.spec, self._resolved, self._confinement, self._prepare_failure)
        undo = self._context.sandboxes.checkpoint(self.name)
        started_at = self.metrics.started_at
        await self._reload_spec(spec)
        self._generation += 1
        if old is None or old.state not in (State.RUNNING, State.SPAWNING, State.BACKOFF):
            self._current = None
            if old is not None:
                old.drain(None)
            self._context.catalogue.changed(self.name, self._generation)
            return
        new = self._new_instance()
        try:
            new.start()
            await new.wait_ready()
        except BaseException:
            new.stop()
            if old in self._instances:  # else the old process has ended: there is nothing to go back to
                undo()
                self.metrics.started_at = started_at
                self._set_spec(*before)
            raise
        self._context.catalogue.changed(self.name, self._generation)
        meanwhile, self._current = self._current, new
        for replaced in {old, meanwhile or old}:  # the old one may have ended, and a call started another
            replaced.drain(new)

    async def _reload_spec(self, spec: PluginSpec) -> None:
        """Read the manifest again and prepare the sandbox anew: a new manifest comes with a new program."""
        with as_launch_failure("cannot prepare it", self.name):
            resolved = await resolve_in_thread(self._contract, spec)
        if self._stopped:  # meanwhile
            raise Stopped("the host has stopped it", plugin=self.name)
        follows = spec.command_from_manifest and tuple(spec.command) == self._resolved.manifest_command
        if follows and resolved.manifest_command is not None:
            spec = msgspec.structs.replace(spec, command=resolved.manifest_command)
        check_runnable(spec, resolved)
        if resolved.log_level is not None:
            self.logs.set_threshold(self.name, resolved.log_level)
        self._set_spec(spec, resolved, await self._context.confine(spec, resolved))

    async def prepare(self) -> OpenLink:
        """How the next process is started; prepares the sandbox first if that failed before."""
        async with self._reloading:
            if self._open_link is None:
                spec, resolved = self.spec, self._resolved
                try:
                    confinement = await self._context.confine(spec, resolved)
                except PluginError as error:
                    self._prepare_failure = error
                    raise
                self._set_spec(spec, resolved, confinement)
            assert self._open_link is not None
            return self._open_link

    def _set_spec(
        self,
        spec: PluginSpec,
        resolved: ResolvedSpec,
        confinement: SandboxPlan | None,
        failure: PluginError | None = None,
    ) -> None:
        """Use this spec, with its sandbox plan, for the next process."""
        self.spec = spec
        self._resolved = resolved
        self._methods = resolved.methods
        self._confinement = confinement
        self._prepare_failure = failure
        self._open_link = self._context.link_opener(resolved, confinement)
        self._metered_tree: MeteredTree | None = None
        if confinement is not None and (limit := confinement.metered_memory) is not None:
            self._metered_tree = MeteredTree(
                limit, weak_callback(self._launcher_pids, ()), weak_callback(self._on_memory_exceeded)
            )

    async def usage(self) -> dict[str, Any]:
        """The memory in bytes and the processor time in seconds of all its processes, read from /proc now."""
        pids = self._launcher_pids()
        if not pids:
            return {"memory": None, "cpu": None}
        # In a thread: a plugin may have thousands of processes.
        return await asyncio.to_thread(lambda: {"memory": sum(memory_of(pids)), "cpu": cpu_seconds(pids)})

    def _launcher_pids(self) -> list[int]:
        """The process ids of the launchers of all its processes."""
        return [instance.pid for instance in self._instances if instance.pid is not None]

    def _on_memory_exceeded(self, used: int) -> None:
        self.fail_all(self._memory_error(f"it used {used >> 20} MiB of memory, more than the limit of"))

    def kill_reason(self) -> BudgetExceeded | None:
        """Why the kernel killed a process, if it was over its memory limit; otherwise None."""
        if not self._context.sandboxes.was_oom_killed(self.name):
            return None
        return self._memory_error("the kernel killed it: its control group reached the memory limit of")

    def _memory_error(self, what: str) -> BudgetExceeded:
        limit = (self.spec.limits.memory or 0) >> 20
        return BudgetExceeded(f"{what} {limit} MiB", hint="if it needs more, raise limits.memory")

    def fail_all(self, cause: PluginError) -> None:
        """Kill all its processes now. Open calls fail with `cause` once the processes are gone."""
        for instance in [*self._instances]:
            instance.on_fatal(cause)

    async def stop(self) -> None:
        """Stop the plugin, gracefully first. Open calls fail at once with Stopped, and so do all later
        ones."""
        self._stopped = True
        for instance in [*self._instances]:
            instance.stop()
        await asyncio.gather(*(instance.gone() for instance in [*self._instances]))
        await self._context.sandboxes.release(self.name)

    def kill(self) -> None:
        """Kill its processes now."""
        self._stopped = True
        for instance in [*self._instances]:
            instance.kill()

    def inspect(self) -> dict[str, Any]:
        """Its spec, state, lifecycle settings and instances as a dict, for `plughost ps` and scripts."""
        return inspect_plugin(self, self._resolved, self._instances)

    # Routing of calls to instances

    def _route(self) -> Instance:
        """A new instance for the next call; it becomes the current one, unless each call has its own."""
        if self._stopped:
            raise Stopped("the host has stopped it", plugin=self.name)
        instance = self._new_instance()
        if not self._one_shot:
            self._current = instance
        return instance

    def _new_instance(self) -> Instance:
        context = self._context
        resolved = msgspec.structs.replace(self._resolved, offered=self.dispatcher.offered())
        session = self._contract.session(self.spec, resolved)
        instance = Instance(
            self.name,
            self._generation,
            self._open_link,
            self._resolved.policy.capped(context.max_grace),
            session,
            clock=context.clock,
            events=context.events,
            delegate=PluginDelegate(self, self._instances),
            links=context.links,
            tapping=None if context.tap is None else self._tapping(context.tap, session),
        )
        self._instances[instance] = None
        return instance

    def _tapping(self, tap: Tap, session: Session) -> Tapping:
        origin = Origin(self.name, self.contract, type(session.framing()).__name__, self._generation)
        return Tapping(tap, origin, asyncio.get_running_loop())

    # Callbacks of instances (`PluginDelegate`)

    @property
    def pinned(self) -> bool:
        """Whether it must not be stopped for idleness."""
        return bool(self._pins)

    def on_started(self, caller: Caller) -> None:
        """A process was started."""
        if self._metered_tree is not None:
            self._context.sandboxes.meter.started(self._metered_tree)
        self.metrics.on_started(self._time(), one_shot=self._one_shot)
        self.dispatcher.on_process_started(caller)

    def on_described(self, methods: Sequence[MethodDescription]) -> None:
        """A handshake told what can be called."""
        told = redact_methods(methods[:MAX_METHODS], self.redactor)
        if told != self._handshake:
            self._handshake = told
            self._context.keep_handshake(self.spec, told)
            self._context.catalogue.changed(self.name, self._generation)

    def on_exited(self, instance: Instance, failure: PluginError | None) -> None:
        """A process has ended, or could not be started; `failure` is None if the host had asked for that."""
        others = self._instances.keys() - {instance}
        self.metrics.on_exited(failure, self._time(), running=any(other.pid is not None for other in others))
        if failure is None:
            return
        try:
            self.logs.on_failed(instance, failure)
        except Exception as error:  # the program's own log service
            instance.on_dropped(f"the host failed to log a failure: {type(error).__name__}: {error}", b"")

    def on_retired(self, instance: Instance) -> None:
        """An instance takes no more calls: the next call starts another."""
        if self._current is instance:
            self._current = None

    def on_gone(self) -> None:
        """An instance and all its processes have ended."""
        if all(instance.generation == self._generation for instance in self._instances):
            self._context.sandboxes.drop_old_generation(self.name)

    def report_denials(self, caller: Caller, records: list[bytes]) -> None:
        """Log what the sandbox has refused to a process, with the grants that would allow it."""
        if self._confinement is None:
            return

        def log_denial(denial: Denial | None) -> None:
            from plughost.sandbox.denials.classify import format_denial

            try:
                self.logs.on_denied(caller, *format_denial(denial, self._resolved.permissions.granting))
            except Exception as error:  # the program's own log service
                caller.warn(f"the host failed to log a denial: {type(error).__name__}: {error}")

        self._context.sandboxes.report_denials(
            self.name, records, caller.generation, self._confinement.visible_access, log_denial
        )

    def report_connection(self, connection: Connection) -> None:
        """Log a connection of a sandboxed process that has ended or was refused."""
        from plughost.sandbox.denials.connections import grant_for

        self.logs.on_connected(self, connection, grant_for(connection, self._resolved.permissions.granting))

    def find_service(self, name: str) -> Service | None:
        """The service of that name that its host offers to it."""
        return self._context.services.find(name, self.contract, self._contract.services)


def _cancel_reason(error: BaseException) -> str:
    message = error.args[0] if error.args else None
    return message if isinstance(message, str) and message else "cancelled"
