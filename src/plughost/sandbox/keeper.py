"""What a host keeps for its confined plugins outside their sandboxes, for as long as they live.

Nothing is made before the first plugin that is confined: no folder, no thread, no timer.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator

from plughost.base.clock import Clock
from plughost.base.errors import InvalidSpec, LaunchFailed, Unconfinable
from plughost.contracts.contract import Binding, PluginSpec, contract, sandbox_of
from plughost.guard.allowance import joined
from plughost.guard.overlap import overlap
from plughost.guard.powers import NONE, Endpoint, Powers
from plughost.runtime.launch import Launch
from plughost.runtime.launch_errors import as_launch_failure
from plughost.sandbox import data_folder
from plughost.sandbox.confinement import CLASSES, Confinement, unconfined
from plughost.sandbox.footing import Footing
from plughost.sandbox.meter import Meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from plughost.sandbox.cgroups import Group, Parent
    from plughost.sandbox.connection import Connection
    from plughost.sandbox.hearing import Hearing, Tell
    from plughost.sandbox.quarters import Quarters
    from plughost.sandbox.reach import Reach
    from plughost.sandbox.wayout import WayOut

KEEPERS = 6
"""Processes in a group that are ours: the launcher's two, bubblewrap's two, the watcher and the forwarder."""

_BURIALS, _BURIAL = 100, 0.02

Told = Callable[[str, "Connection"], None]


class Keeper:
    """`cgroup` is the parent that the operator named; `told` hears of every connection, by plugin.

    A keeper that `foresees` makes nothing that lasts: no data folder, and no user's record.
    """

    def __init__(self, clock: Clock, cgroup: str | None, told: Told, *, foresees: bool = False) -> None:
        self.meter = Meter(clock)
        self._clock = clock
        self._cgroup = cgroup
        self._told = told
        self._foresees = foresees
        self._ground: _Ground | None = None
        self._grounding: asyncio.Task[None] | None = None
        self._plugins: dict[str, _Belongings] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._deciding: set[asyncio.Future[None]] = set()

    async def confine(self, spec: PluginSpec, binding: Binding) -> Confinement:
        """How to run the plugin; LaunchFailed when it cannot be confined as its spec asks.

        The class is the spec's own or its contract's: no caller has another one to fall back to. For a plugin
        that is kept already, what it had stays until `settled`. Whatever goes wrong on the way is a
        LaunchFailed, too, and nothing that was made for the plugin is left then.
        """
        with as_launch_failure("cannot prepare it", spec.name):
            return await self._confine(spec, binding, sandbox_of(spec, contract(spec.contract)))

    async def _confine(self, spec: PluginSpec, binding: Binding, confined: str) -> Confinement:
        powers = effective(spec, binding)
        if confined == "none":
            if binding.data is not None and not self._foresees:
                data_folder.make(binding.data, spec.name, None)
            return unconfined(Launch(tuple(spec.command), binding.env, spec.cwd), powers)
        if confined not in CLASSES:
            raise InvalidSpec(f"unknown sandbox {confined!r}; known: {', '.join(CLASSES)}", plugin=spec.name)
        from plughost.sandbox.confined import confined as how

        ground = await self._settled_ground()
        kept = self._plugins.setdefault(spec.name, _Belongings())
        endpoints = powers.connect if confined == "strict" else ()
        way_out = kept.way_out
        deciding = asyncio.get_running_loop().create_future()
        self._deciding.add(deciding)
        try:
            if kept.group is None:
                kept.group = ground.group(spec)
            if binding.data is not None and not self._foresees:
                data_folder.make(binding.data, spec.name, ground.quarters.room(spec.name).user)
            way_out = self._way_out(spec.name, kept, endpoints)
            confinement = await asyncio.to_thread(
                how,
                spec,
                binding.env,
                powers,
                spec.limits,
                confined,
                ground.quarters,
                way_out=way_out,
                group=kept.group,
                to_come=binding.data.path if self._foresees and binding.data is not None else None,
                listable=binding.listable,
                resolved=binding.resolved,
                writable_tmp=binding.writable_tmp,
                file_locks=binding.file_locks,
            )
            self._keep_apart(spec.name, confinement)
        except BaseException:
            if way_out is not None and way_out is not kept.way_out:
                await way_out.close()
            if not kept.in_use:
                await self.release(spec.name)
            raise
        finally:
            self._deciding.discard(deciding)
            deciding.set_result(None)
        # Not a moment earlier: until the plugin has its new generation, those that end are of this one.
        if kept.way_out is not None and kept.way_out is not way_out:
            kept.stale.append(kept.way_out)
        kept.way_out, kept.endpoints, kept.in_use = way_out, endpoints, True
        return confinement

    async def _settled_ground(self) -> _Ground:
        """Made once, for whichever plugins come first, and not lost with the one that happened to ask."""
        while self._ground is None:
            if self._grounding is None:
                self._grounding = asyncio.get_running_loop().create_task(self._settle())
            await asyncio.shield(self._grounding)
        return self._ground

    async def _settle(self) -> None:
        try:
            ground = await asyncio.to_thread(_Ground, self._cgroup, self._foresees)
        finally:
            self._grounding = None
        self._ground = ground
        weakref.finalize(self, ground.quarters.close)

    def _keep_apart(self, plugin: str, confinement: Confinement) -> None:
        """Unconfinable when another plugin could change, or somebody has, what its sandbox is built from."""
        kept, footing = self._plugins[plugin], confinement.footing
        if kept.footings and kept.powers == confinement.powers and not footing.reaches_as(kept.footings[-1]):
            raise Unconfinable(
                "a path that it is granted leads elsewhere than when it was added",
                plugin=plugin,
                hint="if that is meant, remove it and add it again; if not, find out who may write there",
            )
        if kept.footings and kept.footings[-1].folders != footing.folders:
            raise Unconfinable(
                "its folder is not the one that was there when it was added",
                plugin=plugin,
                hint="if that is meant, remove the plugin and add it again, or put the new files "
                "into the old folder; if not, find out who may write there",
            )
        for name, standing in self._others(plugin):
            if (shaken := footing.shaken_by(standing)) is not None:
                why = f"the plugin {name!r} may write {shaken[1]}, and so could replace {shaken[0]}"
            elif (shaken := standing.shaken_by(footing)) is not None:
                why = f"it may write {shaken[1]}, and so could replace {shaken[0]} of the plugin {name!r}"
            else:
                continue
            hint = "grant both the very same folder, or folders that are not in one another"
            raise Unconfinable(why, plugin=plugin, hint=hint)
        kept.footings = [*(each for each in kept.footings if each != footing), footing]
        kept.powers = confinement.powers

    def _others(self, plugin: str) -> Iterator[tuple[str, Footing]]:
        for name, kept in self._plugins.items():
            if name != plugin:
                yield from ((name, footing) for footing in kept.footings)

    def _way_out(self, plugin: str, kept: _Belongings, endpoints: tuple[Endpoint, ...]) -> WayOut | None:
        """A way out to just these endpoints; the one there is, if it is that."""
        if kept.endpoints == endpoints:
            return kept.way_out
        if not endpoints:
            return None
        from plughost.sandbox.wayout import WayOut

        assert self._ground is not None
        room = self._ground.quarters.room(plugin)
        return WayOut(
            endpoints,
            f"{room.path}/{kept.number()}",
            lambda connection: self._told(plugin, connection),
            owner=room.user,
        )

    def undoing(self, plugin: str) -> Callable[[], None]:
        """What takes the next `confine` back, as long as a process of before it is there."""
        kept = self._plugins.get(plugin)
        if kept is None:
            return lambda: None
        way_out, endpoints, footings, powers = kept.way_out, kept.endpoints, kept.footings, kept.powers

        def undo() -> None:
            if kept.way_out is not way_out:
                ways = [*kept.stale, *([kept.way_out] if kept.way_out is not None else [])]
                kept.stale = [way for way in ways if way is not way_out]
            kept.way_out, kept.endpoints, kept.powers = way_out, endpoints, powers
            kept.footings = [*(each for each in kept.footings if each not in footings), *footings]

        return undo

    def hear(self, plugin: str, records: list[bytes], generation: int, reach: Reach, tell: Tell) -> None:
        """Judge what a process's watcher says that it was refused, and tell it."""
        kept = self._plugins.get(plugin)
        if kept is None:
            return
        if kept.hearing is None:
            from plughost.sandbox.hearing import Hearing

            kept.hearing = Hearing(self._clock)
        kept.hearing.hear(records, generation, reach, tell)

    def was_held(self, plugin: str) -> bool:
        """Whether its control group has killed for memory since this was asked last."""
        kept = self._plugins.get(plugin)
        if kept is None or kept.group is None:
            return False
        before, kept.kills = kept.kills, kept.group.kills
        return kept.kills > before

    def settled(self, plugin: str) -> None:
        """No process of an earlier generation is left: what only those had can go."""
        kept = self._plugins.get(plugin)
        if kept is not None:
            kept.footings = kept.footings[-1:]
        if kept is not None and kept.stale:
            stale, kept.stale = kept.stale, []
            task = asyncio.get_running_loop().create_task(_close(stale))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def release(self, plugin: str) -> None:
        """The plugin has ended for good."""
        kept = self._plugins.pop(plugin, None)
        if kept is not None:
            if kept.hearing is not None:
                await kept.hearing.close()
            await _close([*kept.stale, *([kept.way_out] if kept.way_out is not None else [])])
            if kept.group is not None:
                await _remove(kept.group)
            if self._ground is not None:
                await asyncio.to_thread(self._ground.quarters.leave, plugin)

    async def close(self) -> None:
        if self._grounding is not None:
            await asyncio.wait([self._grounding])
        if self._deciding:
            await asyncio.wait(self._deciding)
        for plugin in [*self._plugins]:
            await self.release(plugin)
        await asyncio.gather(*self._closing, return_exceptions=True)
        if self._ground is not None:
            await asyncio.to_thread(self._ground.quarters.close)


def effective(spec: PluginSpec, binding: Binding) -> Powers:
    """What its manifest asks for and the operator allows, and what it has without that."""
    return joined(overlap(binding.declared, spec.allow), binding.own)


class _Ground:
    """What is found or made once, in a thread."""

    def __init__(self, cgroup: str | None, foresees: bool) -> None:
        from plughost.sandbox.cgroups import find
        from plughost.sandbox.quarters import Quarters
        from plughost.sandbox.users import Users

        self.parent: Parent | None = find(cgroup)
        if self.parent is not None:
            self.parent.sweep()
        self.quarters: Quarters = Quarters(users=Users(foreseen=foresees))

    def group(self, spec: PluginSpec) -> Group | None:
        if self.parent is None:
            return None
        try:
            processes = spec.limits.processes
            return self.parent.make(spec.limits.memory, None if processes is None else processes + KEEPERS)
        except OSError as error:
            raise LaunchFailed(
                f"no control group could be made for it: {error}",
                plugin=spec.name,
                hint="check the parent that was named, or name none: then the host sums memory itself",
            ) from error


class _Belongings:
    """One plugin's."""

    def __init__(self) -> None:
        self.endpoints: tuple[Endpoint, ...] = ()
        self.way_out: WayOut | None = None
        self.stale: list[WayOut] = []
        self.group: Group | None = None
        self.kills = 0
        """Of that group's, known so far."""
        self.hearing: Hearing | None = None
        self.footings: list[Footing] = []
        """Of all its generations, the newest last."""
        self.powers = NONE
        """Of the newest one."""
        self.in_use = False
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count


async def _remove(group: Group) -> None:
    """What the kernel has just killed there may take it a moment to bury."""
    for _ in range(_BURIALS):
        if group.remove():
            return
        await asyncio.sleep(_BURIAL)


async def _close(ways: list[WayOut]) -> None:
    for way in ways:
        await way.close()
