"""One invocation from its request to its record: schema, turn, process, context, outcome.

Whatever happens on the way, it is recorded once as begun and once as ended, and nothing that was made for it
outlives it: no scratch folder, no token, no place at the gate.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from functools import partial
from typing import Any

import msgspec

from plughost.clock import Clock
from plughost.errors import (
    BudgetExceeded,
    CollateralFailure,
    Crashed,
    HandshakeFailed,
    InvalidSpec,
    LaunchFailed,
    PluginError,
    Stopped,
    Timeout,
)
from plughost.host import Host
from plughost.permissions.access import ResourceLimits
from plughost.plugin import Plugin
from plughost.spec import PluginSpec
from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope, tenant_of
from plughost.vai.bindings.package import PackageSource
from plughost.vai.bindings.prepared import PreparedBinding, Preparer
from plughost.vai.bindings.schemas import Schemas
from plughost.vai.bindings.secret_source import SecretSource, reveal_all
from plughost.vai.checks.checks import Checks
from plughost.vai.invocations.concurrency import ConcurrencyLimit
from plughost.vai.invocations.context import context
from plughost.vai.invocations.execution import Execution, start_execution
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.pool import Pool, PooledWorker
from plughost.vai.invocations.process_spec import process_spec
from plughost.vai.invocations.requests import CompactionRequest, ToolRequest
from plughost.vai.invocations.results import ResultHandler, failure
from plughost.vai.invocations.scratch import Scratch, until_next_look
from plughost.vai.invocations.streaming import stream
from plughost.vai.invocations.token_issuer import TokenIssuer
from plughost.vai.invocations.unsolicited import UnsolicitedMessages
from plughost.vai.records.record import STRAY, EventLogged, RecordSink
from plughost.vai.records.retention import RecordLimits
from plughost.vai.state.chains import ChainSink
from plughost.vai.state.retry_schedule import TOOL_TRIES, Backoff

_NO_SECRETS: dict[str, str] = {}
_IS_GONE = (Crashed, LaunchFailed, HandshakeFailed)


class InvokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a host runs invocations."""

    policy: BindingPolicy = BindingPolicy()
    """What it allows at most."""
    limits: ResourceLimits = ResourceLimits()
    sandbox: str = "strict"
    reuse: str = "binding"
    """Whether an isolated process serves its `binding`, or one `invocation` only."""
    most_processes: int = 64
    workers: int = 4
    """Invocations of class worker at a time, of all bindings: what runs in the background."""
    idle: float = 300.0
    """Seconds until a process that nobody uses is ended."""
    tries: Backoff = TOOL_TRIES
    records: RecordLimits = RecordLimits()
    """How much a plugin may write into the record of one invocation."""
    scratch_base: str | None = None
    artifacts: str | None = None
    """Where files go that harnesses hand over, by their digests; without it only digests are kept."""


class LocalInvoker:
    """Runs invocations in processes of this machine."""

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
        self._secrets = secret_source
        self._gateway = gateway
        self._scratch = Scratch(self._options.scratch_base)
        self.pool = Pool(
            host, clock, most=self._options.most_processes, idle=self._options.idle, after=self._tidy_up
        )
        self._strays = UnsolicitedMessages(host)
        self._preparer = Preparer(
            packages,
            Schemas(),
            self._options.policy,
            reuse=self._options.reuse,
            workers=ConcurrencyLimit(self._options.workers),
        )
        self.checks = Checks(clock)
        self._settlement = ResultHandler(chains, self._options.artifacts)
        self._prefix = f"inv_{secrets.token_hex(5)}"
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()  # to ask for it takes a system call
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._cancelled: dict[str, str] = {}
        self._closed = False
        self._all_over: asyncio.Future[None] | None = None

    @property
    def running(self) -> list[str]:
        """The invocations under way."""
        return list(self._running)

    def sweep(self) -> None:
        """Remove the scratch folders that killed hosts have left. Blocking."""
        self._scratch.sweep()

    async def prepare(self, binding: Binding) -> PreparedBinding:
        """What a binding gives its invocations; InvalidSpec when it cannot be used."""
        prepared = self._preparer.known(binding) or await self._preparer.prepare(binding)
        if prepared.config is not None:
            await self.checks.config(prepared)
        return prepared

    async def invoke(self, wanted: Invocation, on_event: OnEvent | None = None) -> Outcome:
        if self._closed:
            raise Stopped("this host is closed")
        prepared = self._preparer.known(wanted.binding)
        if prepared is None or prepared.config is not None:
            prepared = await self.prepare(wanted.binding)
        if self._closed:  # meanwhile
            raise Stopped("this host is closed")
        id = f"{self._prefix}{next(self._numbers):x}"
        run = start_execution(
            id, wanted, prepared, self._clock, self._records, on_event, self._options.records
        )
        self._records.tell(run.began())
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._running[run.id] = task
        cancels = task.cancelling()
        outcome = None
        try:
            refusal = self._refusal(run)
            outcome = (
                refusal if isinstance(refusal, Outcome | None) else await refusal
            ) or await self._outcome(run)
        except asyncio.CancelledError as gone:
            asked = self._cancelled.get(run.id)
            outcome = run.ended_as("cancelled", asked or str(next(iter(gone.args), None) or "cancelled"))
            if asked is None or task.uncancel() > cancels:  # its caller has left, too
                raise
        finally:
            del self._running[run.id]
            if self._cancelled:
                self._cancelled.pop(run.id, None)
            if self._all_over is not None and not self._running and not self._all_over.done():
                self._all_over.set_result(None)
            self._records.tell(run.ended(outcome or run.ended_as("failed", "host_failure")))
        return outcome

    def stream(self, wanted: Invocation) -> AsyncGenerator[dict[str, Any] | Outcome]:
        """Its events as they come, and its outcome last. Whoever stops listening cancels it."""
        return stream(self, wanted)

    async def prewarm(self, binding: Binding, project_id: str | None = None) -> None:
        """A process that is ready before its first invocation; none where each invocation has its own."""
        if self._closed:
            raise Stopped("this host is closed")
        prepared = await self.prepare(binding)
        if prepared.alone:
            return
        self.pool.give_back(await self._process(prepared, tenant_of(binding, project_id)))

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        task = self._running.get(invocation_id)
        if task is None or invocation_id in self._cancelled:
            return False
        self._cancelled[invocation_id] = reason
        task.cancel(reason)
        return True

    async def close(self) -> None:
        """Cancel what runs, and end every process."""
        self._closed = True
        for invocation_id in [*self._running]:
            self.cancel(invocation_id, "host_closed")
        if self._running:  # they are their callers' tasks, which may go on with something else
            self._all_over = self._loop.create_future()
            await self._all_over
        await self.checks.close()
        await self.pool.close()
        await self._scratch.close()

    # The way of one invocation

    async def _outcome(self, run: Execution) -> Outcome:
        """Tried as often as its effects and its time allow."""
        prepared = run.prepared
        if not prepared.gate.enter_now() and not await self._entered(run):
            why = f"no place was free in time, of {prepared.granted.max_concurrency}"
            return run.ended_as("retryable_failure", "no_room", why)
        try:
            while True:
                process, again = None, prepared.retryable
                try:
                    warm = self.pool.warm(prepared.key_for(run.scope))
                    process = warm or await self._process_in_time(run)
                    run.process, run.hidden = process, process.hidden_from(run.scope)
                    if prepared.furnished:
                        outcome = await self._furnished(run, process)
                    else:
                        answer = await self._call(run, process)
                        outcome = self._at_once(run, answer) or await self.checks.answer(run, answer)
                        if self._settlement.is_to_be_kept(run, outcome):
                            outcome = await self._settlement.persist(run, outcome)
                except PluginError as error:
                    if process is not None and isinstance(error, _IS_GONE):
                        self.pool.retire(process)  # another try gets another one, and waits for no supervisor
                    outcome, again = failure(run, error)
                finally:
                    if process is not None:
                        self._done_with(process, run)
                if outcome.status == "succeeded" or not again or not await self._waited(run, outcome):
                    return outcome
        finally:
            prepared.gate.leave()

    def _done_with(self, process: PooledWorker, run: Execution) -> None:
        process.last = run.id
        if self._strays:
            for what in self._strays.take(process.plugin.name):
                self._records.tell(run.said(_refused(what)))
        self.pool.give_back(process)

    async def _entered(self, run: Execution) -> bool:
        try:
            async with asyncio.timeout(run.left):
                await run.prepared.gate.enter()
        except TimeoutError:
            return False
        return True

    async def _waited(self, run: Execution, outcome: Outcome) -> bool:
        """Whether there is time for another try, which is due now."""
        delay = self._options.tries.after(run.retries + 1) if outcome.status == "retryable_failure" else None
        if delay is None or delay >= run.left:
            return False
        run.retries += 1
        await asyncio.sleep(delay)
        return True

    def _at_once(self, run: Execution, answer: msgspec.Raw) -> Outcome | None:
        """What a small answer means; None for one that is for a worker process."""
        if len(memoryview(answer)) > run.prepared.answered_at_once:
            return None
        return self._settlement.evaluate(run, answer)

    def _refusal(self, run: Execution) -> Outcome | Awaitable[Outcome | None] | None:
        """What is wrong with a request before any process sees it. An awaitable for what takes longer."""
        work, export = run.wanted.work, run.prepared.export
        if work.kind != export.kind:
            return run.ended_as(
                "failed", "invalid_request", f"{export.id} is a {export.kind}, no {work.kind}"
            )
        if isinstance(work, ToolRequest):
            schema = run.prepared.input
            return None if schema is None else self.checks.input(run, schema, work.input)
        if (
            isinstance(work, CompactionRequest)
            and run.prepared.granted.filesystem != "scratch"
            and work.is_large
        ):
            why = "a large projection travels as a file, and the export has no scratch folder"
            return run.ended_as("failed", "invalid_request", why)
        return None

    def _call(
        self,
        run: Execution,
        process: PooledWorker,
        scratch: str | None = None,
        secrets: dict[str, str] = _NO_SECRETS,
    ) -> Coroutine[Any, Any, msgspec.Raw]:
        prepared = run.prepared
        about = context(run, scratch, self._gateway)
        body = run.wanted.work.body(prepared.export, about, prepared.binding.config, secrets)
        return process.plugin.call(prepared.op, body, timeout=run.left, type=msgspec.Raw, on_event=run.hear)

    async def _furnished(self, run: Execution, process: PooledWorker) -> Outcome:
        """With what is its own, which is gone when it ends."""
        prepared, plugin, scratch, answered = run.prepared, process.plugin, None, False
        try:
            if prepared.granted.filesystem == "scratch":
                scratch = self._scratch.make(str(plugin.spec.options["scratch"]), f"{run.id}.{run.retries}")
            secrets = await self._revealed(run) if prepared.export.permissions.secret_slots else _NO_SECRETS
            call = self._call(run, process, scratch, secrets)
            plugin.redactor.learn_from(run.hidden)  # its stderr is everybody's
            answer = await (call if scratch is None else self._within(scratch, run, plugin, call))
            answered = True
            outcome = self._at_once(run, answer) or await self.checks.answer(run, answer)
            if self._settlement.is_to_be_kept(run, outcome):
                outcome = await self._settlement.persist(run, outcome, scratch)
            return outcome
        finally:
            if self._gateway is not None and prepared.granted.scopes:
                self._gateway.dismiss(run)
            if scratch is not None:
                if not answered:
                    self.pool.retire(process)  # its code may go on, and would see what the next one writes
                try:
                    await self._scratch.remove(scratch)
                finally:
                    if self._scratch.strewn(os.path.dirname(scratch)):
                        self.pool.retire(process)  # what it has left there goes with it

    async def _process_in_time(self, run: Execution) -> PooledWorker:
        try:
            async with asyncio.timeout(run.left):
                return await self._process(run.prepared, run.scope)
        except TimeoutError:
            raise Timeout("no process was ready in time") from None

    async def _process(self, prepared: PreparedBinding, scope: Scope) -> PooledWorker:
        """One that may serve this tenant, to be given back."""
        scopes = self._gateway if prepared.granted.scopes else None
        socket = None if scopes is None else await scopes.open()
        spec = partial(self._spec, prepared, socket)
        key, check = prepared.key_for(scope), prepared.package.check
        return await self.pool.take(
            key, spec, alone=prepared.alone, exclusive=prepared.exclusive, check=check
        )

    async def _tidy_up(self, process: PooledWorker) -> None:
        """When a process is gone nobody fills its scratch folders any more, and its name is free."""
        plugin = process.plugin
        for number, what in enumerate(self._strays.take(plugin.name), STRAY):
            if process.last:
                told = EventLogged(
                    invocation_id=process.last, number=number, at=time.time(), event=_refused(what)
                )
                self._records.tell(told)
        if (root := plugin.spec.options.get("scratch")) is not None:
            await self._scratch.remove(str(root))

    async def _revealed(self, run: Execution) -> dict[str, str]:
        """The secrets of its slots, from now on hidden in all that its process says to its tenant."""
        if self._secrets is None:
            raise InvalidSpec("this host keeps no secrets")
        slots = run.prepared.export.permissions.secret_slots
        values = await reveal_all(self._secrets, run.prepared.binding.secrets, slots)
        run.hidden.add(values.values())
        return values

    async def _within(self, scratch: str, run: Execution, plugin: Plugin, call: Awaitable[Any]) -> Any:
        """The answer of a call that may fill its scratch folder up to its limit, and not further."""
        task = asyncio.ensure_future(call)
        limit = self._options.limits.scratch
        pause = until_next_look(limit or 0, 0.0)
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=pause)
                if limit is not None:
                    used, all_take = await asyncio.to_thread(self._scratch.look, scratch)
                    if used > limit:
                        raise BudgetExceeded(f"its scratch folder holds more than {limit} bytes")
                    pause = until_next_look(limit - used, all_take)
                if done:
                    return task.result()
        except BaseException as gone:
            if isinstance(gone, BudgetExceeded):  # it would go on writing while it was asked to stop
                plugin.fail_all(CollateralFailure("another invocation filled its scratch folder"))
            else:
                task.cancel(self._cancelled.get(run.id) or "cancelled")
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    def _spec(self, prepared: PreparedBinding, gateway_socket: str | None, number: int) -> PluginSpec:
        return process_spec(
            prepared.package,
            prepared.export,
            prepared.granted,
            name=f"{prepared.package.manifest.package_id}:{prepared.export.id}#{number}",
            scratch=self._scratch.root() if prepared.granted.filesystem == "scratch" else None,
            gateway_socket=gateway_socket,
            limits=self._options.limits,
            sandbox=self._options.sandbox,
        )


def _refused(what: str) -> dict[str, Any]:
    return {"type": "protocol.refused", "message": what}
