"""LocalInvoker: executes invocations in sandboxed processes of this machine.

The steps: check the input, wait for a concurrency slot, take a process from the pool, call it, evaluate the
answer, persist the result, record the outcome. Whatever happens, an invocation is recorded once as started
and once as finished, and leaves nothing behind: no scratch folder, no token, no concurrency slot.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from functools import partial
from typing import Any, Literal, get_args

import msgspec

from plughost._util.seconds import check_seconds
from plughost._util.text import truncate
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
from plughost.sandbox.plan import CLASSES
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
from plughost.vai.invocations.scratch import Scratch, measure_interval
from plughost.vai.invocations.streaming import stream
from plughost.vai.invocations.token_issuer import TokenIssuer
from plughost.vai.invocations.unsolicited import UnsolicitedMessages
from plughost.vai.records.record import FIRST_UNSOLICITED, EventLogged, RecordSink
from plughost.vai.records.retention import RecordLimits
from plughost.vai.retry_policy import TOOL_TRIES, Backoff
from plughost.vai.state.chains import ChainSink

_NO_SECRETS: dict[str, str] = {}
Reuse = Literal["binding", "invocation"]
_PROCESS_GONE = (Crashed, LaunchFailed, HandshakeFailed)


class InvokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of how a host executes invocations."""

    policy: BindingPolicy = BindingPolicy()
    """The host's own policy: the most that any binding may be granted."""
    limits: ResourceLimits = ResourceLimits()
    sandbox: str = "strict"
    """The sandbox class of its processes: strict, landlock or none."""
    reuse: Reuse = "binding"
    """Whether an isolated process serves its `binding`, or only one `invocation`."""
    most_processes: int = 64
    workers: int = 4
    """Concurrent invocations of class worker (background work), over all bindings."""
    idle: float = 300.0
    """Seconds after which an unused process is stopped."""
    tries: Backoff = TOOL_TRIES
    """The retry schedule of tools that may be retried."""
    records: RecordLimits = RecordLimits()
    """Limits on what a plugin may write into the record of one invocation."""
    scratch_base: str | None = None
    artifacts: str | None = None
    """The folder for files that harnesses hand over, named by digest; without it only digests are kept."""

    def __post_init__(self) -> None:
        # msgspec checks types only when it decodes, and programs call the constructor.
        for name, words in (("sandbox", CLASSES), ("reuse", get_args(Reuse))):
            if (word := getattr(self, name)) not in words:
                raise InvalidSpec(f"{name} is {truncate(word)}; expected one of {', '.join(words)}")
        for name in ("most_processes", "workers"):
            if type(count := getattr(self, name)) is not int or count < 1:
                raise InvalidSpec(f"{name} is {truncate(count)}; expected a number from 1 on")
        check_seconds("idle", self.idle)


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
        self._secrets = secret_source
        self._gateway = gateway
        self._scratch = Scratch(self._options.scratch_base)
        self.pool = Pool(
            host,
            clock,
            most=self._options.most_processes,
            idle=self._options.idle,
            on_removed=self._on_process_gone,
        )
        self._unsolicited = UnsolicitedMessages(host)
        self._preparer = Preparer(
            packages,
            Schemas(),
            self._options.policy,
            reuse=self._options.reuse,
            workers=ConcurrencyLimit(self._options.workers),
        )
        self.checks = Checks(clock)
        self._results = ResultHandler(chains, self._options.artifacts)
        self._prefix = f"inv_{secrets.token_hex(5)}"
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()  # kept, since asking for it takes a system call
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._cancelled: dict[str, str] = {}
        self._closed = False
        self._all_ended: asyncio.Future[None] | None = None

    @property
    def running(self) -> list[str]:
        """The ids of running invocations."""
        return list(self._running)

    def sweep(self) -> None:
        """Removes the scratch folders that killed hosts have left. Blocking."""
        self._scratch.sweep()

    async def prepare(self, binding: Binding) -> PreparedBinding:
        """Validates a binding, including a configuration that takes long to check. InvalidSpec when it is
        unusable."""
        prepared = self._preparer.cached(binding) or await self._preparer.prepare(binding)
        if prepared.config is not None:
            await self.checks.config(prepared)
        return prepared

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Executes and records one invocation; see `Invoker.invoke`."""
        if self._closed:
            raise Stopped("this host is closed")
        prepared = self._preparer.cached(invocation.binding)
        if prepared is None or prepared.config is not None:
            prepared = await self.prepare(invocation.binding)
        if self._closed:  # meanwhile
            raise Stopped("this host is closed")
        id = f"{self._prefix}{next(self._numbers):x}"
        execution = start_execution(
            id, invocation, prepared, self._clock, self._records, on_event, self._options.records
        )
        self._records.append(execution.started_entry())
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._running[execution.id] = task
        cancels = task.cancelling()
        outcome = None
        try:
            refusal = self._check_request(execution)
            outcome = (
                refusal if isinstance(refusal, Outcome | None) else await refusal
            ) or await self._execute(execution)
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
            if self._all_ended is not None and not self._running and not self._all_ended.done():
                self._all_ended.set_result(None)
            self._records.append(
                execution.finished_entry(outcome or execution.make_outcome("failed", "host_failure"))
            )
        return outcome

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
        self.pool.give_back(await self._take_process(prepared, tenant_of(binding, project_id)))

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
            self._running
        ):  # not awaited themselves: these are the tasks of callers, which may go on with something else
            self._all_ended = self._loop.create_future()
            await self._all_ended
        await self.checks.close()
        await self.pool.close()
        await self._scratch.close()

    # The steps of one invocation

    async def _execute(self, execution: Execution) -> Outcome:
        """Executes an invocation, and retries it as often as its effects and its deadline allow."""
        prepared = execution.prepared
        if not prepared.concurrency.enter_now() and not await self._enter_in_time(execution):
            why = f"no place was free in time, of {prepared.granted.max_concurrency}"
            return execution.make_outcome("retryable_failure", "no_room", why)
        try:
            while True:
                process, retry = None, prepared.retryable
                try:
                    warm = self.pool.take_warm(prepared.key_for(execution.scope))
                    process = warm or await self._take_process_in_time(execution)
                    execution.process, execution.redactor = process, process.redactor_for(execution.scope)
                    if prepared.has_own_resources:
                        outcome = await self._execute_with_resources(execution, process)
                    else:
                        answer = await self._call(execution, process)
                        outcome = self._evaluate_small(execution, answer) or await self.checks.answer(
                            execution, answer
                        )
                        if self._results.must_persist(execution, outcome):
                            outcome = await self._results.persist(execution, outcome)
                except PluginError as error:
                    if process is not None and isinstance(error, _PROCESS_GONE):
                        self.pool.retire(process)  # another attempt gets a new one, without a restart
                    outcome, retry = failure(execution, error)
                finally:
                    if process is not None:
                        self._release(process, execution)
                if (
                    outcome.status == "succeeded"
                    or not retry
                    or not await self._wait_for_retry(execution, outcome)
                ):
                    return outcome
        finally:
            prepared.concurrency.leave()

    def _release(self, process: PooledWorker, execution: Execution) -> None:
        process.last_invocation_id = execution.id
        if self._unsolicited:
            for what in self._unsolicited.take(process.plugin.name):
                self._records.append(execution.event_entry(_refused_event(what)))
        self.pool.give_back(process)

    async def _enter_in_time(self, execution: Execution) -> bool:
        try:
            async with asyncio.timeout(execution.left):
                await execution.prepared.concurrency.enter()
        except TimeoutError:
            return False
        return True

    async def _wait_for_retry(self, execution: Execution, outcome: Outcome) -> bool:
        """Waits for the next retry; False when there is none, or no time for it."""
        delay = (
            self._options.tries.after(execution.retries + 1)
            if outcome.status == "retryable_failure"
            else None
        )
        if delay is None or delay >= execution.left:
            return False
        execution.retries += 1
        await asyncio.sleep(delay)
        return True

    def _evaluate_small(self, execution: Execution, answer: msgspec.Raw) -> Outcome | None:
        """Evaluates a small answer; None for one that a worker process must check."""
        if len(memoryview(answer)) > execution.prepared.answered_at_once:
            return None
        return self._results.evaluate(execution, answer)

    def _check_request(self, execution: Execution) -> Outcome | Awaitable[Outcome | None] | None:
        """The outcome of a request that is wrong; None when it is right. An awaitable where the check takes
        longer."""
        work, export = execution.invocation.work, execution.prepared.export
        if work.kind != export.kind:
            return execution.make_outcome(
                "failed", "invalid_request", f"{export.id} is a {export.kind}, no {work.kind}"
            )
        if isinstance(work, ToolRequest):
            schema = execution.prepared.input
            return None if schema is None else self.checks.input(execution, schema, work.input)
        if (
            isinstance(work, CompactionRequest)
            and execution.prepared.granted.filesystem != "scratch"
            and work.is_large
        ):
            why = "a large projection travels as a file, and the export has no scratch folder"
            return execution.make_outcome("failed", "invalid_request", why)
        return None

    def _call(
        self,
        execution: Execution,
        process: PooledWorker,
        scratch: str | None = None,
        secrets: dict[str, str] = _NO_SECRETS,
    ) -> Coroutine[Any, Any, msgspec.Raw]:
        prepared = execution.prepared
        request_context = context(execution, scratch, self._gateway)
        body = execution.invocation.work.body(
            prepared.export, request_context, prepared.binding.config, secrets
        )
        return process.plugin.call(
            prepared.op, body, timeout=execution.left, type=msgspec.Raw, on_event=execution.on_plugin_event
        )

    async def _execute_with_resources(self, execution: Execution, process: PooledWorker) -> Outcome:
        """Executes an invocation with its scratch folder, secrets and token, which are all gone at its
        end."""
        prepared, plugin, scratch, answered = execution.prepared, process.plugin, None, False
        try:
            if prepared.granted.filesystem == "scratch":
                scratch = self._scratch.make(
                    str(plugin.spec.options["scratch"]), f"{execution.id}.{execution.retries}"
                )
            secrets = (
                await self._reveal_secrets(execution)
                if prepared.export.permissions.secret_slots
                else _NO_SECRETS
            )
            call = self._call(execution, process, scratch, secrets)
            plugin.redactor.learn_from(execution.redactor)  # its stderr has no tenant
            answer = await (
                call if scratch is None else self._call_within_limit(scratch, execution, plugin, call)
            )
            answered = True
            outcome = self._evaluate_small(execution, answer) or await self.checks.answer(execution, answer)
            if self._results.must_persist(execution, outcome):
                outcome = await self._results.persist(execution, outcome, scratch)
            return outcome
        finally:
            if self._gateway is not None and prepared.granted.scopes:
                self._gateway.dismiss(execution)
            if scratch is not None:
                if not answered:
                    # Its code may still run, and would see what the next invocation writes.
                    self.pool.retire(process)
                try:
                    await self._scratch.remove(scratch)
                finally:
                    if self._scratch.stray_paths(os.path.dirname(scratch)):
                        self.pool.retire(process)  # the files that it left there go with it

    async def _take_process_in_time(self, execution: Execution) -> PooledWorker:
        try:
            async with asyncio.timeout(execution.left):
                return await self._take_process(execution.prepared, execution.scope)
        except TimeoutError:
            raise Timeout("no process was ready in time") from None

    async def _take_process(self, prepared: PreparedBinding, scope: Scope) -> PooledWorker:
        """Takes a process that may serve this tenant; to be given back."""
        scopes = self._gateway if prepared.granted.scopes else None
        socket = None if scopes is None else await scopes.open()
        spec = partial(self._make_spec, prepared, socket)
        key, check = prepared.key_for(scope), prepared.package.check
        return await self.pool.take(
            key, spec, single_use=prepared.single_use, exclusive=prepared.exclusive, check=check
        )

    async def _on_process_gone(self, process: PooledWorker) -> None:
        """Records the last messages of a process that is gone, and removes its scratch root."""
        plugin = process.plugin
        for number, what in enumerate(self._unsolicited.take(plugin.name), FIRST_UNSOLICITED):
            if process.last_invocation_id:
                entry = EventLogged(
                    invocation_id=process.last_invocation_id,
                    number=number,
                    at=time.time(),
                    event=_refused_event(what),
                )
                self._records.append(entry)
        if (root := plugin.spec.options.get("scratch")) is not None:
            await self._scratch.remove(str(root))

    async def _reveal_secrets(self, execution: Execution) -> dict[str, str]:
        """The secrets of its slots, from now on hidden in all that its process says to its tenant."""
        if self._secrets is None:
            raise InvalidSpec("this host keeps no secrets")
        slots = execution.prepared.export.permissions.secret_slots
        values = await reveal_all(self._secrets, execution.prepared.binding.secrets, slots)
        execution.redactor.add(values.values())
        return values

    async def _call_within_limit(
        self, scratch: str, execution: Execution, plugin: Plugin, call: Awaitable[Any]
    ) -> Any:
        """Awaits a call while measuring its scratch folder; BudgetExceeded when that exceeds its limit."""
        task = asyncio.ensure_future(call)
        limit = self._options.limits.scratch
        pause = measure_interval(limit or 0, 0.0)
        try:
            while True:
                done, _ = await asyncio.wait([task], timeout=pause)
                if limit is not None:
                    used, all_take = await asyncio.to_thread(self._scratch.measure, scratch)
                    if used > limit:
                        raise BudgetExceeded(f"its scratch folder holds more than {limit} bytes")
                    pause = measure_interval(limit - used, all_take)
                if done:
                    return task.result()
        except BaseException as gone:
            if isinstance(gone, BudgetExceeded):  # killed: it would go on writing until it stops
                plugin.fail_all(CollateralFailure("another invocation filled its scratch folder"))
            else:
                task.cancel(self._cancelled.get(execution.id) or "cancelled")
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    def _make_spec(self, prepared: PreparedBinding, gateway_socket: str | None, number: int) -> PluginSpec:
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


def _refused_event(what: str) -> dict[str, Any]:
    return {"type": "protocol.refused", "message": what}
