"""Executor: executes invocations in processes of a pool.

The steps: wait for a concurrency slot, take a process from the pool, call it, evaluate the answer, persist
the result; and again, as often as a retry is allowed. Whatever happens, an execution leaves nothing behind:
no scratch folder, no token, no concurrency slot.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Coroutine, Mapping
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
    Timeout,
)
from plughost.host import Host
from plughost.plugin import Plugin
from plughost.spec import PluginSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.prepared import PreparedBinding
from plughost.vai.bindings.secret_source import SecretSource, SecretUse, reveal_all
from plughost.vai.checks.checks import Checks
from plughost.vai.invocations.context import context
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.pool import Pool, PooledWorker
from plughost.vai.invocations.process_spec import process_spec
from plughost.vai.invocations.requests import CompactionRequest, ToolRequest
from plughost.vai.invocations.results import ResultHandler, failure
from plughost.vai.invocations.scratch import Scratch, measure_interval
from plughost.vai.invocations.token_issuer import TokenIssuer
from plughost.vai.invocations.unsolicited import UnsolicitedMessages
from plughost.vai.records.record import FIRST_UNSOLICITED, EventLogged, RecordSink
from plughost.vai.state.chains import ChainSink

_NO_SECRETS: dict[str, str] = {}
_PROCESS_GONE = (Crashed, LaunchFailed, HandshakeFailed)


class Executor:
    """Executes invocations, each in a process that may serve its tenant. `cancelled` has the reasons of
    cancelled invocations by their ids."""

    def __init__(
        self,
        host: Host,
        records: RecordSink,
        clock: Clock,
        options: InvokerOptions,
        cancelled: Mapping[str, str],
        *,
        secret_source: SecretSource | None,
        chains: ChainSink | None,
        gateway: TokenIssuer | None,
    ) -> None:
        self._options = options
        self._records = records
        self._cancelled = cancelled
        self._secrets = secret_source
        self._gateway = gateway
        self.scratch = Scratch(options.scratch_base)
        self.pool = Pool(
            host,
            clock,
            most=options.most_processes,
            idle=options.idle,
            on_removed=self._on_process_gone,
        )
        self.unsolicited = UnsolicitedMessages(host)
        self.checks = Checks(clock)
        self._results = ResultHandler(chains, options.artifacts)

    async def prewarm(self, prepared: PreparedBinding, scope: Scope) -> None:
        """Starts a process before the first invocation."""
        self.pool.give_back(await self._take_process(prepared, scope))

    async def close(self) -> None:
        """Stops every process."""
        await self.checks.close()
        await self.pool.close()
        await self.scratch.close()

    async def execute(self, execution: Execution) -> Outcome:
        """Executes an invocation, and retries it as often as its effects and its deadline allow."""
        prepared = execution.prepared
        if not prepared.concurrency.enter_now() and not await self._enter_in_time(execution):
            why = f"no slot was free in time; the maximum is {prepared.granted.max_concurrency}"
            if prepared.concurrency.parent is not None:
                why += f" for the binding, and {self._options.workers} for all background work"
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
        if self.unsolicited:
            for what in self.unsolicited.take(process.plugin.name):
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

    def check_request(self, execution: Execution) -> Outcome | Awaitable[Outcome | None] | None:
        """The outcome of a request that is wrong; None when it is right. An awaitable where the check takes
        longer."""
        work, export = execution.invocation.work, execution.prepared.export
        if work.kind != export.kind:
            return execution.make_outcome(
                "failed", "invalid_request", f"{export.id} is a {export.kind}, not a {work.kind}"
            )
        if isinstance(work, ToolRequest):
            schema = execution.prepared.input
            return None if schema is None else self.checks.input(execution, schema, work.input)
        if (
            isinstance(work, CompactionRequest)
            and execution.prepared.granted.filesystem != "scratch"
            and work.is_large
        ):
            why = "a large projection is passed as a file, but the export has no scratch folder"
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
                scratch = self.scratch.make(
                    str(plugin.spec.options["scratch"]), f"{execution.id}.{execution.retries}"
                )
            secrets = (
                await self._reveal_secrets(execution)
                if prepared.export.permissions.secret_slots
                else _NO_SECRETS
            )
            call = self._call(execution, process, scratch, secrets)
            plugin.redactor.add_from(execution.redactor)  # its stderr has no tenant
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
                    await self.scratch.remove(scratch)
                finally:
                    if self.scratch.stray_paths(os.path.dirname(scratch)):
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
        for number, what in enumerate(self.unsolicited.take(plugin.name), FIRST_UNSOLICITED):
            if process.last_invocation_id:
                entry = EventLogged(
                    invocation_id=process.last_invocation_id,
                    number=number,
                    at=time.time(),
                    event=_refused_event(what),
                )
                self._records.append(entry)
        if (root := plugin.spec.options.get("scratch")) is not None:
            await self.scratch.remove(str(root))

    async def _reveal_secrets(self, execution: Execution) -> dict[str, str]:
        """The secrets of its slots, from now on hidden in all that its process says to its tenant."""
        if self._secrets is None:
            raise InvalidSpec("this host has no secret store")
        slots = execution.prepared.export.permissions.secret_slots
        binding = execution.prepared.binding
        use = SecretUse(
            binding_id=binding.binding_id,
            package_id=binding.package_id,
            owner=binding.scope,
            tenant=execution.scope,
            invocation_id=execution.id,
        )
        values = await reveal_all(self._secrets, binding.secrets, slots, use)
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
                    used, all_take = await asyncio.to_thread(self.scratch.measure, scratch)
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
            scratch=self.scratch.root() if prepared.granted.filesystem == "scratch" else None,
            gateway_socket=gateway_socket,
            limits=self._options.limits,
            sandbox=self._options.sandbox,
        )


def _refused_event(what: str) -> dict[str, Any]:
    return {"type": "protocol.refused", "message": what}
