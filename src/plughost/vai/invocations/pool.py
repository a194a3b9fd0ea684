"""A pool of warm worker processes for invocations, separated by what they must not share."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from plughost._util.redaction.redactor import Redactor
from plughost.clock import Clock, Timer
from plughost.errors import PluginError, Quarantined, Stopped
from plughost.host import Host
from plughost.plugin import Plugin
from plughost.spec import PluginSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.invocations.concurrency import ConcurrencyLimit

Spec = Callable[[int], PluginSpec]
"""Makes the spec of the process with that number. Numbers are reused when their process is gone, because a
root host keeps a user for every process name forever."""


Check = Callable[[], None]
"""Raises when the files that are about to run are not those that were signed. Blocking."""


class PoolKey(NamedTuple):
    """The key by which processes are shared: invocations with different keys never run in the same
    process."""

    package_digest: str
    export_id: str
    tenant: Scope | None
    """None for the execution class inline, whose publisher is trusted with the calls of all tenants."""
    policy_digest: str


class PooledWorker:
    """One process of the pool, with the number of invocations that use it now."""

    def __init__(
        self, plugin: Plugin, key: PoolKey, number: int, *, single_use: bool, exclusive: bool
    ) -> None:
        self.plugin = plugin
        self.key = key
        self.number = number
        self.exclusive = exclusive
        """Whether it serves one invocation at a time."""
        self.ready = False
        """Whether its handshake is done."""
        self.users = 0
        self.idle_since = 0.0
        self.retired = single_use
        """Whether it takes no more invocations than those in it; from the start if it is for a single use."""
        self.stopping = False
        self.confined_by: tuple[str, ...] = ()
        """The sandbox mechanisms that its launcher reported, once it is ready."""
        self.last_invocation_id = ""
        """The invocation that ended last in it; empty before the first."""
        self._redactors: dict[Scope, Redactor] = {}

    def redactor_for(self, tenant: Scope) -> Redactor:
        """The redactor of this tenant's secrets. Secrets of other tenants are not redacted from this tenant's
        output: by seeing what is redacted, a tenant could guess them."""
        redactor = self._redactors.get(tenant)
        if redactor is None:
            redactor = self._redactors[tenant] = Redactor()
        return redactor

    @property
    def shared(self) -> bool:
        """Whether more than one tenant used the process: its stderr then belongs to none of them."""
        return len(self._redactors) > 1


class Pool:
    """A pool of at most `most` processes. One that is idle for `idle` seconds is stopped."""

    def __init__(
        self,
        host: Host,
        clock: Clock,
        *,
        most: int = 64,
        idle: float = 300.0,
        on_removed: Callable[[PooledWorker], Awaitable[None]] | None = None,
    ) -> None:
        """`on_removed` is called when a process is gone."""
        self._host = host
        self._on_removed = on_removed
        self._clock = clock
        self._idle = idle
        self._warm: dict[PoolKey, list[PooledWorker]] = {}
        """Processes that can take an invocation now; several of one key only where they are exclusive."""
        self._making: dict[PoolKey, asyncio.Future[PooledWorker]] = {}
        self._numbers: set[int] = set()
        self._slots = ConcurrencyLimit(most)
        """One for each number in use."""
        self._stopping: set[asyncio.Task[None]] = set()
        self._reaper: Timer | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._numbers)

    def take_warm(self, key: PoolKey) -> PooledWorker | None:
        """Takes a process of `key` that is ready; None when one must be started or waited for."""
        workers = self._warm.get(key)
        return None if workers is None or not workers[-1].ready else self._take_if_accepting(workers[-1])

    def _take_if_accepting(self, process: PooledWorker) -> PooledWorker | None:
        if not process.plugin.accepting_calls:
            self.retire(process)
            return None
        process.users += 1
        if process.exclusive:
            self._withdraw(process)
        return process

    def _withdraw(self, process: PooledWorker) -> None:
        """Removes a process from the warm ones, so that no other invocation gets it."""
        workers = self._warm.get(process.key, [])
        if process in workers:
            workers.remove(process)
            if not workers:
                del self._warm[process.key]

    async def take(
        self,
        key: PoolKey,
        spec: Spec,
        *,
        single_use: bool,
        exclusive: bool = False,
        check: Check | None = None,
    ) -> PooledWorker:
        """Takes a process for one invocation, after its handshake; hand it back with `give_back`.

        `exclusive`: no other invocation uses it at the same time. `single_use`: nor afterwards.
        `check` runs right before every start, after everything else that was read from the package to prepare
        it.
        """
        process = await self._find_or_make(key, spec, single_use=single_use, exclusive=exclusive)
        if process.ready:
            return process
        try:
            if check is not None:
                await asyncio.to_thread(check)
            await process.plugin.start()
            process.ready = True
            process.confined_by = process.plugin.confined_by
        except BaseException as error:
            if isinstance(error, PluginError):
                self.retire(process)
            self.give_back(process)  # after a timeout the process goes on starting, for the next caller
            if isinstance(error, Quarantined) and isinstance(error.__cause__, PluginError):
                raise error.__cause__ from None  # nobody restarts this process: the next call gets a new one
            raise
        return process

    async def _find_or_make(
        self, key: PoolKey, spec: Spec, *, single_use: bool, exclusive: bool
    ) -> PooledWorker:
        shared = not single_use and not exclusive
        while not single_use:
            while (workers := self._warm.get(key)) is not None:
                if (process := self._take_if_accepting(workers[-1])) is not None:
                    return process
            if exclusive or (making := self._making.get(key)) is None:
                break
            await asyncio.wait([making])  # if that caller fails or gives up, this one starts the process
        if self._closed:
            raise Stopped("the pool is closed")
        making = asyncio.get_running_loop().create_future()
        if shared:
            self._making[key] = making
        try:
            process = await self._make(key, spec, single_use=single_use, exclusive=exclusive)
        finally:
            if shared:
                del self._making[key]
            making.cancel()
        process.users += 1
        if shared:
            self._warm[key] = [process]
        return process

    async def _make(self, key: PoolKey, spec: Spec, *, single_use: bool, exclusive: bool) -> PooledWorker:
        await self._wait_for_slot()
        number = next(number for number in itertools.count(1) if number not in self._numbers)
        self._numbers.add(number)
        try:
            plugin = await self._host.add(spec(number))
        except BaseException:
            self._free(number)
            raise
        return PooledWorker(plugin, key, number, single_use=single_use, exclusive=exclusive)

    async def _wait_for_slot(self) -> None:
        """Waits until one more process may be started; the one that was idle longest is retired for it."""
        if self._slots.enter_now():
            return
        idle = [process for process in self._all_warm() if not process.users]
        if idle:
            self.retire(min(idle, key=lambda process: process.idle_since))
        await self._slots.enter()
        if self._closed:
            self._slots.leave()
            raise Stopped("the pool is closed")

    def _all_warm(self) -> list[PooledWorker]:
        return [process for workers in self._warm.values() for process in workers]

    def give_back(self, process: PooledWorker) -> None:
        """Ends one use of a process, which then stays warm, or is stopped when it is retired or others wait
        for a slot."""
        process.users -= 1
        if process.users:
            return
        process.idle_since = self._clock.time()
        if process.retired or self._closed:
            self._stop(process)
            return
        if self._slots:
            self.retire(process)
            return
        if process.exclusive:
            self._warm.setdefault(process.key, []).append(process)
        if self._reaper is None:
            self._reaper = self._clock.call_at(process.idle_since + self._idle, self._reap)

    def retire(self, process: PooledWorker) -> None:
        """Gives the process no more invocations, and stops it when those in it have ended."""
        if not process.retired:
            process.retired = True
            self._withdraw(process)
            if not process.users:
                self._stop(process)

    def _reap(self) -> None:
        self._reaper = None
        now = self._clock.time()
        for process in self._all_warm():
            if not process.users and process.idle_since + self._idle <= now:
                self.retire(process)
        if self._warm:
            oldest = min(process.idle_since if not process.users else now for process in self._all_warm())
            self._reaper = self._clock.call_at(oldest + self._idle, self._reap)

    def _stop(self, process: PooledWorker) -> None:
        if process.stopping:
            return
        process.stopping = True
        task = asyncio.get_running_loop().create_task(self._remove(process))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _remove(self, process: PooledWorker) -> None:
        try:
            await self._host.remove(process.plugin.name)
        except PluginError:
            pass  # it was removed already
        try:
            if self._on_removed is not None:
                await self._on_removed(process)
        finally:
            self._free(process.number)

    def _free(self, number: int) -> None:
        self._numbers.discard(number)
        self._slots.leave()

    async def close(self) -> None:
        """Stops every process; invocations in them fail."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        self._slots.refuse_waiting(Stopped("the pool is closed"))
        for process in self._all_warm():
            process.retired = True
            self._stop(process)
        self._warm.clear()
        while self._stopping:
            await asyncio.gather(*self._stopping, return_exceptions=True)
