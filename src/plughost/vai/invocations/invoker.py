"""LocalInvoker: executes invocations in sandboxed processes of this machine.

It prepares the binding, checks the input, lets `Executor` execute the invocation, and records the outcome.
Whatever happens, an invocation is recorded once as started and once as finished.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from plughost.clock import Clock
from plughost.errors import Stopped
from plughost.host import Host
from plughost.vai.bindings.binding import Binding, tenant_of
from plughost.vai.bindings.package import PackageSource
from plughost.vai.bindings.prepared import PreparedBinding, Preparer
from plughost.vai.bindings.schemas import Schemas
from plughost.vai.bindings.secret_source import SecretSource
from plughost.vai.invocations.execution import Execution, start_execution
from plughost.vai.invocations.executor import Executor
from plughost.vai.invocations.fair_limit import FairLimit
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.streaming import stream
from plughost.vai.invocations.token_issuer import TokenIssuer
from plughost.vai.records.record import RecordSink
from plughost.vai.state.chains import ChainSink


class StartedInvocation(msgspec.Struct, frozen=True):
    """An invocation that was started, perhaps earlier with the same key."""

    invocation_id: str
    outcome: asyncio.Task[Outcome] | None = None
    """Its outcome, to be awaited; None when it was started before."""


class LocalInvoker:
    """Executes invocations in processes of this machine; implements `Invoker`."""

    def __init__(
        self,
        host: Host,
        packages: PackageSource,
        records: RecordSink,
        clock: Clock,
        *,
        secret_source: SecretSource | None = None,
        chains: ChainSink | None = None,
        gateway: TokenIssuer | None = None,
        options: InvokerOptions | None = None,
    ) -> None:
        self._options = options or InvokerOptions()
        self._records = records
        self._clock = clock
        self._cancelled: dict[str, str] = {}
        """The reasons of cancelled invocations by their ids."""
        self._executor = Executor(
            host,
            records,
            clock,
            self._options,
            self._cancelled,
            secret_source=secret_source,
            chains=chains,
            gateway=gateway,
        )
        self.pool = self._executor.pool
        self.checks = self._executor.checks
        self._preparer = Preparer(
            packages,
            Schemas(),
            self._options.policy,
            reuse=self._options.reuse,
            workers=FairLimit(self._options.workers, self._options.reserved_workers),
        )
        self._prefix = f"inv_{secrets.token_hex(5)}"
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()  # kept, since asking for it takes a system call
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._starting: set[str] = set()
        """The ids of invocations whose start is being stored."""
        self._started: set[asyncio.Task[Outcome]] = set()
        """Invocations that nobody may wait for."""
        self._closed = False
        self._all_ended: asyncio.Future[None] | None = None

    @property
    def running(self) -> list[str]:
        """The ids of running invocations."""
        return list(self._running)

    def sweep(self) -> None:
        """Removes the scratch folders that killed hosts have left. Blocking."""
        self._executor.scratch.sweep()

    async def prepare(self, binding: Binding) -> PreparedBinding:
        """Validates a binding, including a configuration that takes long to check. InvalidSpec when it is
        unusable."""
        prepared = self._preparer.cached(binding) or await self._preparer.prepare(binding)
        if prepared.config is not None:
            await self.checks.config(prepared)
        return prepared

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Executes and records one invocation; see `Invoker.invoke`."""
        execution = await self._new_execution(invocation, on_event)
        self._records.append(execution.started_entry())
        return await self._execute(execution)

    async def start(
        self, invocation: Invocation, on_event: OnEvent | None = None, *, key: str | None = None
    ) -> StartedInvocation:
        """Starts an invocation and returns without its outcome. Its start is on disk before it begins.

        `key` is an idempotency key of the tenant: an invocation that was started with it before, in whichever
        process, is not started again.
        """
        execution = await self._new_execution(invocation, on_event)
        task = None
        self._starting.add(execution.id)
        try:
            first = await self._records.commit_start(execution.started_entry(), key)
            if first != execution.id:
                return StartedInvocation(first)
            if self._closed:  # meanwhile
                raise Stopped("this host is closed")
            task = self._loop.create_task(self._execute(execution))
            self._started.add(task)
            task.add_done_callback(self._started.discard)
            await asyncio.sleep(0)  # until it has begun: a task that has not would record no end
        except BaseException:
            if task is not None:
                task.cancel()
            else:  # its start may be stored all the same
                reason = "host_closed" if self._closed else "cancelled"
                outcome = execution.make_outcome("cancelled", reason, "it was not begun")
                self._records.append(execution.finished_entry(outcome))
            raise
        finally:
            self._starting.remove(execution.id)
            self._note_end()
        if self._closed:
            self.cancel(execution.id, "host_closed")
        return StartedInvocation(execution.id, task)

    async def _new_execution(self, invocation: Invocation, on_event: OnEvent | None) -> Execution:
        if self._closed:
            raise Stopped("this host is closed")
        prepared = self._preparer.cached(invocation.binding)
        if prepared is None or prepared.config is not None:
            prepared = await self.prepare(invocation.binding)
        if self._records.is_behind:
            await self._records.catch_up()
        if self._closed:  # meanwhile
            raise Stopped("this host is closed")
        id = f"{self._prefix}{next(self._numbers):x}"
        return start_execution(
            id, invocation, prepared, self._clock, self._records, on_event, self._options.records
        )

    async def _execute(self, execution: Execution) -> Outcome:
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._running[execution.id] = task
        cancels = task.cancelling()
        outcome = None
        try:
            refusal = self._executor.check_request(execution)
            outcome = (
                refusal if isinstance(refusal, Outcome | None) else await refusal
            ) or await self._executor.execute(execution)
        except asyncio.CancelledError as gone:
            asked = self._cancelled.get(execution.id)
            outcome = execution.make_outcome(
                "cancelled", asked or str(next(iter(gone.args), None) or "cancelled")
            )
            if asked is None or task.uncancel() > cancels:  # the caller was cancelled, too
                raise
        finally:
            del self._running[execution.id]
            if self._cancelled:
                self._cancelled.pop(execution.id, None)
            self._note_end()
            self._records.append(
                execution.finished_entry(outcome or execution.make_outcome("failed", "host_failure"))
            )
        return outcome

    def _note_end(self) -> None:
        """Releases `close` when nothing is under way any more."""
        if self._all_ended is not None and not (self._running or self._starting or self._all_ended.done()):
            self._all_ended.set_result(None)

    def stream(self, invocation: Invocation) -> AsyncGenerator[dict[str, Any] | Outcome]:
        """Yields the events of an invocation, then its outcome. Closing the generator cancels the
        invocation."""
        return stream(self, invocation)

    async def prewarm(self, binding: Binding, project_id: str | None = None) -> None:
        """Starts a process before the first invocation; none where each invocation has a process of its
        own."""
        if self._closed:
            raise Stopped("this host is closed")
        prepared = await self.prepare(binding)
        if prepared.single_use:
            return
        await self._executor.prewarm(prepared, tenant_of(binding, project_id))

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        """Cancels a running invocation. False when it has ended already, or is being cancelled."""
        task = self._running.get(invocation_id)
        if task is None or invocation_id in self._cancelled:
            return False
        self._cancelled[invocation_id] = reason
        task.cancel(reason)
        return True

    async def close(self) -> None:
        """Cancels running invocations, and stops every process."""
        self._closed = True
        for invocation_id in [*self._running]:
            self.cancel(invocation_id, "host_closed")
        if (
            self._running or self._starting
        ):  # not awaited themselves: these are the tasks of callers, which may go on with something else
            self._all_ended = self._loop.create_future()
            await self._all_ended
        await self._executor.close()
