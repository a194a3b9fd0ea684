"""The sandbox manager of a host: keeps what its confined plugins need outside of their sandboxes.

That is the run directory, users, control groups, egress proxies and denial collectors. Nothing is created
before the first confined plugin: no directory, no thread, no timer.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator

from plughost.clock import Clock
from plughost.contracts.base import ResolvedSpec
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import sandbox_class
from plughost.engine.launcher.errors import as_launch_failure
from plughost.engine.launcher.launch import Launch
from plughost.errors import InvalidSpec, LaunchFailed, SandboxUnavailable
from plughost.permissions.access import NONE, Access, Endpoint
from plughost.permissions.intersection import intersect
from plughost.permissions.parse import union
from plughost.sandbox import data_dir
from plughost.sandbox.memory.meter import MemoryMeter
from plughost.sandbox.plan import CLASSES, SandboxPlan, unconfined
from plughost.sandbox.protected_paths import ProtectedPaths
from plughost.spec import PluginSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from plughost.sandbox.denials.collector import DenialCollector, Report
    from plughost.sandbox.denials.visible_access import VisibleAccess
    from plughost.sandbox.egress.connection import Connection
    from plughost.sandbox.egress.instance import EgressInstance
    from plughost.sandbox.memory.cgroups import Cgroup, CgroupParent
    from plughost.sandbox.run_dir import RunDir

HELPER_PROCESSES = 6
"""Processes in a control group that are the host's: two of the launcher, two of bubblewrap, the watcher and
the forwarder."""

_REMOVE_ATTEMPTS, _REMOVE_INTERVAL = 100, 0.02

OnConnection = Callable[[str, "Connection"], None]


class SandboxManager:
    """Plans the sandbox of each plugin and owns its resources until `release` or `close`.

    `cgroup` is the parent control group that the operator named; `on_connection` is called with the plugin's
    name and every connection that its egress proxy handled. With `dry_run` nothing lasting is created: no
    data directory and no record of a user.
    """

    def __init__(
        self, clock: Clock, cgroup: str | None, on_connection: OnConnection, *, dry_run: bool = False
    ) -> None:
        self.meter = MemoryMeter(clock)
        self._clock = clock
        self._cgroup = cgroup
        self._on_connection = on_connection
        self._dry_run = dry_run
        self._host_setup: _HostSetup | None = None
        self._setup_task: asyncio.Task[None] | None = None
        self._plugins: dict[str, _PluginState] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._preparing: set[asyncio.Future[None]] = set()

    async def confine(self, spec: PluginSpec, resolved: ResolvedSpec) -> SandboxPlan:
        """Decide how to run the plugin; LaunchFailed when it cannot be confined as its spec asks.

        The class is the spec's or its contract's default: there is no weaker class to fall back to. For a
        plugin that runs already, the resources of its earlier generation stay until `drop_old_generation`.
        Any other failure is a LaunchFailed, too, and then nothing that was created for the plugin is left.
        """
        with as_launch_failure("cannot prepare it", spec.name):
            return await self._confine(spec, resolved, sandbox_class(spec, get_contract(spec.contract)))

    async def _confine(self, spec: PluginSpec, resolved: ResolvedSpec, confined: str) -> SandboxPlan:
        access = effective(spec, resolved)
        needs = resolved.sandbox
        if confined == "none":
            if needs.data is not None and not self._dry_run:
                data_dir.create_data_dir(needs.data, spec.name, None)
            return unconfined(Launch(tuple(spec.command), resolved.env, spec.cwd), access)
        if confined not in CLASSES:
            raise InvalidSpec(f"unknown sandbox {confined!r}; known: {', '.join(CLASSES)}", plugin=spec.name)
        from plughost.sandbox.prepare import prepare_sandbox

        host_setup = await self._get_host_setup()
        state = self._plugins.setdefault(spec.name, _PluginState())
        endpoints = access.connect if confined == "strict" else ()
        egress = state.egress
        preparing = asyncio.get_running_loop().create_future()
        self._preparing.add(preparing)
        try:
            if state.group is None:
                state.group = host_setup.group(spec)
            if needs.data is not None and not self._dry_run:
                data_dir.create_data_dir(needs.data, spec.name, host_setup.run_dir.plugin_dir(spec.name).user)
            egress = self._egress_for(spec.name, state, endpoints)
            plan = await asyncio.to_thread(
                prepare_sandbox,
                spec,
                resolved.env,
                access,
                spec.limits,
                confined,
                host_setup.run_dir,
                egress=egress,
                group=state.group,
                future_dir=needs.data.path if self._dry_run and needs.data is not None else None,
                listable=needs.listable,
                resolved=needs.real_paths,
                writable_tmp=needs.writable_tmp,
                file_locks=needs.file_locks,
            )
            self._check_isolation(spec.name, plan)
        except BaseException:
            if egress is not None and egress is not state.egress:
                await egress.close()
            if not state.in_use:
                await self.release(spec.name)
            raise
        finally:
            self._preparing.discard(preparing)
            preparing.set_result(None)
        # Only now: until the new generation is planned, a connection that ends belongs to the old egress.
        if state.egress is not None and state.egress is not egress:
            state.stale.append(state.egress)
        state.egress, state.endpoints, state.in_use = egress, endpoints, True
        return plan

    async def _get_host_setup(self) -> _HostSetup:
        """The setup of this host, created once. It does not depend on the plugin that asked first: cancelling
        that one does not cancel the setup."""
        while self._host_setup is None:
            if self._setup_task is None:
                self._setup_task = asyncio.get_running_loop().create_task(self._set_up_host())
            await asyncio.shield(self._setup_task)
        return self._host_setup

    async def _set_up_host(self) -> None:
        try:
            host_setup = await asyncio.to_thread(_HostSetup, self._cgroup, self._dry_run)
        finally:
            self._setup_task = None
        self._host_setup = host_setup
        weakref.finalize(self, host_setup.run_dir.close)

    def _check_isolation(self, plugin: str, plan: SandboxPlan) -> None:
        """Raises SandboxUnavailable when another plugin could change what this sandbox is built from, the
        other way round, or somebody has changed it since the plugin was added."""
        state, protected = self._plugins[plugin], plan.protected_paths
        if (
            state.protected_history
            and state.access == plan.access
            and not protected.same_grants(state.protected_history[-1])
        ):
            raise SandboxUnavailable(
                "a granted path leads to another place than when the plugin was added",
                plugin=plugin,
                hint="if that is intended, remove the plugin and add it again; if not, find out who can "
                "write there",
            )
        if state.protected_history and state.protected_history[-1].folders != protected.folders:
            raise SandboxUnavailable(
                "its folder was replaced after the plugin was added",
                plugin=plugin,
                hint="if that is intended, remove the plugin and add it again, or put the new files "
                "into the old folder; if not, find out who can write there",
            )
        for name, other in self._others(plugin):
            if (conflict := protected.writable_by(other)) is not None:
                why = (
                    f"the plugin {name!r} may write {conflict[1]}, and so could replace {conflict[0]}, which "
                    "this plugin uses"
                )
            elif (conflict := other.writable_by(protected)) is not None:
                why = f"it may write {conflict[1]}, and so could replace {conflict[0]} of the plugin {name!r}"
            else:
                continue
            hint = "grant both exactly the same folder, or folders that do not contain each other"
            raise SandboxUnavailable(why, plugin=plugin, hint=hint)
        state.protected_history = [
            *(each for each in state.protected_history if each != protected),
            protected,
        ]
        state.access = plan.access

    def _others(self, plugin: str) -> Iterator[tuple[str, ProtectedPaths]]:
        for name, state in self._plugins.items():
            if name != plugin:
                yield from ((name, protected) for protected in state.protected_history)

    def _egress_for(
        self, plugin: str, state: _PluginState, endpoints: tuple[Endpoint, ...]
    ) -> EgressInstance | None:
        """An egress proxy for exactly these endpoints; the present one if it has the same."""
        if state.endpoints == endpoints:
            return state.egress
        if not endpoints:
            return None
        from plughost.sandbox.egress.instance import EgressInstance

        assert self._host_setup is not None
        plugin_dir = self._host_setup.run_dir.plugin_dir(plugin)
        return EgressInstance(
            endpoints,
            f"{plugin_dir.path}/{state.number()}",
            lambda connection: self._on_connection(plugin, connection),
            owner=plugin_dir.user,
        )

    def checkpoint(self, plugin: str) -> Callable[[], None]:
        """Returns a function that undoes the next `confine`, for a reload that fails while a process of the
        earlier generation still runs."""
        state = self._plugins.get(plugin)
        if state is None:
            return lambda: None
        egress, endpoints, history, access = (
            state.egress,
            state.endpoints,
            state.protected_history,
            state.access,
        )

        def undo() -> None:
            if state.egress is not egress:
                instances = [*state.stale, *([state.egress] if state.egress is not None else [])]
                state.stale = [instance for instance in instances if instance is not egress]
            state.egress, state.endpoints, state.access = egress, endpoints, access
            state.protected_history = [
                *(each for each in state.protected_history if each not in history),
                *history,
            ]

        return undo

    def report_denials(
        self, plugin: str, records: list[bytes], generation: int, visible: VisibleAccess, tell: Report
    ) -> None:
        """Classify the denial records of a process's watcher, and pass each denial that a grant would change
        to `tell`."""
        state = self._plugins.get(plugin)
        if state is None:
            return
        if state.denials is None:
            from plughost.sandbox.denials.collector import DenialCollector

            state.denials = DenialCollector(self._clock)
        state.denials.collect(records, generation, visible, tell)

    def was_oom_killed(self, plugin: str) -> bool:
        """Whether the plugin's control group has killed a process for lack of memory since the last call."""
        state = self._plugins.get(plugin)
        if state is None or state.group is None:
            return False
        before, state.kills = state.kills, state.group.kills
        return state.kills > before

    def drop_old_generation(self, plugin: str) -> None:
        """Release what only earlier generations used, once no process of those is left."""
        state = self._plugins.get(plugin)
        if state is not None:
            state.protected_history = state.protected_history[-1:]
        if state is not None and state.stale:
            stale, state.stale = state.stale, []
            task = asyncio.get_running_loop().create_task(_close(stale))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def release(self, plugin: str) -> None:
        """Release everything of a plugin that has ended for good."""
        state = self._plugins.pop(plugin, None)
        if state is not None:
            if state.denials is not None:
                await state.denials.close()
            await _close([*state.stale, *([state.egress] if state.egress is not None else [])])
            if state.group is not None:
                await _remove(state.group)
            if self._host_setup is not None:
                await asyncio.to_thread(self._host_setup.run_dir.leave, plugin)

    async def close(self) -> None:
        """Release every plugin, wait for work in progress, and remove the run directory."""
        if self._setup_task is not None:
            await asyncio.wait([self._setup_task])
        if self._preparing:
            await asyncio.wait(self._preparing)
        for plugin in [*self._plugins]:
            await self.release(plugin)
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._host_setup is not None:
            await asyncio.to_thread(self._host_setup.run_dir.close)


def effective(spec: PluginSpec, resolved: ResolvedSpec) -> Access:
    """The effective access of a plugin: what its manifest asks for and the operator allows, and what it
    always has."""
    return union(intersect(resolved.permissions.declared, spec.allow), resolved.permissions.own)


class _HostSetup:
    """Resources shared by all plugins of a host: the run directory and the parent of control groups. Blocks,
    so it is created in a thread."""

    def __init__(self, cgroup: str | None, dry_run: bool) -> None:
        from plughost.sandbox.memory.cgroups import find
        from plughost.sandbox.run_dir import RunDir
        from plughost.sandbox.users import Users

        self.parent: CgroupParent | None = find(cgroup)
        if self.parent is not None:
            self.parent.sweep()
        self.run_dir: RunDir = RunDir(users=Users(dry_run=dry_run))

    def group(self, spec: PluginSpec) -> Cgroup | None:
        if self.parent is None:
            return None
        try:
            processes = spec.limits.processes
            most = None if processes is None else processes + HELPER_PROCESSES
            return self.parent.make(spec.limits.memory, most)
        except OSError as error:
            raise LaunchFailed(
                f"no control group could be made for it: {error}",
                plugin=spec.name,
                hint="check the configured parent group, or configure none: then the host measures "
                "memory itself",
            ) from error


class _PluginState:
    """The sandbox resources of one plugin."""

    def __init__(self) -> None:
        self.endpoints: tuple[Endpoint, ...] = ()
        self.egress: EgressInstance | None = None
        self.stale: list[EgressInstance] = []
        self.group: Cgroup | None = None
        self.kills = 0
        """The out-of-memory kills of its control group that are known so far."""
        self.denials: DenialCollector | None = None
        self.protected_history: list[ProtectedPaths] = []
        """The protected paths of each live generation, the newest last."""
        self.access = NONE
        """The access of the newest generation."""
        self.in_use = False
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count


async def _remove(group: Cgroup) -> None:
    """Remove a control group, with retries: the kernel may need a moment to reap processes that it has just
    killed."""
    for _ in range(_REMOVE_ATTEMPTS):
        if group.remove():
            return
        await asyncio.sleep(_REMOVE_INTERVAL)


async def _close(instances: list[EgressInstance]) -> None:
    for instance in instances:
        await instance.close()
