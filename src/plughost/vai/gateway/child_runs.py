"""Runs that a harness begins: as many and as deep as its policy allows, and none outlives it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec

from plughost.contracts.vai.request_bodies import HarnessTarget, Trigger
from plughost.errors import InvalidSpec, PluginError
from plughost.vai.bindings.binding import Binding
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.gateway.guest import Guest, over
from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead, number, read
from plughost.vai.gateway.tenancy import bound, its_own, named
from plughost.vai.invocations.invocation import Invocation, Invoker, Related
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import HarnessRequest
from plughost.vai.state.runs import CANCELLED, RunRecord
from plughost.vai.state.state import TenantState

LONGEST_WAIT = 60_000
"""Milliseconds that one look at a run may wait for its end."""
BY_PARENT = "parent_cancelled"
Text = Annotated[str, msgspec.Meta(max_length=64 << 10)]


class NewRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request body that starts a run."""

    task: Text = ""
    session_id: str | None = None
    """Its parent's where it names none, and the same of the chain."""
    chain_id: str | None = None
    parent_run_id: str | None = None
    """The run that it is a part of: its parent's own, and no other."""
    export: str | None = None
    """A bound harness that does it. Without one it is for its parent to finish."""
    package_id: str | None = None
    """Where several packages have an export of that name."""
    input: list[Any] = []
    checkpoint: Any = msgspec.UNSET
    """Of an earlier run, for the export to go on from."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a run of one's own; one that an export does can only be cancelled."""

    status: Literal["succeeded", "failed", "cancelled"]
    output: Text | None = None


class ChildRuns:
    """Handlers for runs: start, read and finish the child runs of a harness."""

    def __init__(self, state: TenantState, bindings: Bindings, invoker: Invoker) -> None:
        self._state = state
        self._bindings = bindings
        self._invoker = invoker
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def start(self, guest: Guest, _: str, head: RequestHead, body: bytes) -> HttpAnswer:
        policy = guest.harness.policy
        if policy.max_depth < 1:
            raise HttpProblem(403, "too_deep", "the maximum depth of nested runs is reached")
        asked = read(body, NewRun)
        if asked.parent_run_id not in (None, guest.run.invocation.related.run_id):
            raise HttpProblem(403, "not_its_own", "parent_run_id must be the caller's own run")
        if asked.session_id is not None:
            await its_own(guest, self._state.sessions.session(asked.session_id))
        if asked.chain_id is not None:
            await its_own(guest, self._state.chains.chain(asked.chain_id))
        binding = None
        if asked.export is not None:
            binding = bound(self._bindings, guest, asked.export, asked.package_id)
        guest.spend(len(body))
        task = await guest.run.redactor.redact_json_async(asked.task)
        run = _record(guest, asked, named(guest, "run", head.key), task)
        guest.has_runs = True
        try:
            if not await self._state.runs.start(run, policy.max_child_runs):
                raise HttpProblem(
                    403, "too_many_child_runs", f"{policy.max_child_runs} child runs are the maximum"
                )
        except InvalidSpec:  # it was begun before, with the same key
            return HttpAnswer(200, msgspec.to_builtins(await self._state.runs.run(run.run_id)))
        if guest.over:  # meanwhile
            await self._state.runs.finish(run.run_id, CANCELLED, reason="parent_ended")
            raise over()
        if binding is not None:
            wanted = _invocation(guest, asked, run, binding)
            child = guest.begin(self._carry_out(run.run_id, wanted))
            self._under_way[run.run_id] = child
            child.add_done_callback(lambda _: self._under_way.pop(run.run_id, None))
        return HttpAnswer(201, msgspec.to_builtins(run))

    async def look(self, guest: Guest, run_id: str, head: RequestHead, body: bytes) -> HttpAnswer:
        run = await its_own(guest, self._state.runs.run(run_id))
        wait = number(head.query, "wait_ms", 0, LONGEST_WAIT)
        task = self._under_way.get(run_id)
        if wait and task is not None:
            await asyncio.wait([task], timeout=min(wait / 1000, guest.run.left))
            run = await self._state.runs.run(run_id)
        return HttpAnswer(200, msgspec.to_builtins(run))

    async def finish(self, guest: Guest, run_id: str, head: RequestHead, body: bytes) -> HttpAnswer:
        asked = read(body, FinishedRun)
        run = await its_own(guest, self._state.runs.run(run_id))
        if run.invocation_id != guest.run.id or (run.export_id is not None and asked.status != CANCELLED):
            raise HttpProblem(403, "not_its_own", "only the invocation that carries out a run can finish it")
        guest.spend(len(body))
        if (task := self._under_way.get(run_id)) is not None:
            task.cancel(BY_PARENT)
            await asyncio.wait([task])
            return HttpAnswer(200, msgspec.to_builtins(await self._state.runs.run(run_id)))
        output = await guest.run.redactor.redact_json_async(asked.output)
        if not await self._state.runs.finish(run_id, asked.status, output=output):
            raise HttpProblem(409, "run_is_over", "the run has already ended")
        return HttpAnswer(200, msgspec.to_builtins(await self._state.runs.run(run_id)))

    async def _carry_out(self, run_id: str, wanted: Invocation) -> None:
        """The invocation of a child, to its end and into its run."""
        try:
            outcome = await self._invoker.invoke(wanted)
        except asyncio.CancelledError as gone:
            why = str(next(iter(gone.args), CANCELLED))
            outcome = Outcome(invocation_id="", status=CANCELLED, reason=why)
        except PluginError as error:
            outcome = Outcome(invocation_id="", status="failed", reason=error.code, message=error.message)
        result = outcome.result
        summary = result.get("summary") if isinstance(result, dict) else None
        await self._state.runs.finish(
            run_id,
            outcome.status,
            reason=outcome.reason,
            output=summary["text"] if summary else outcome.message,
            result=result,
        )


def _record(guest: Guest, asked: NewRun, run_id: str, task: str) -> RunRecord:
    parent = guest.harness.target
    return RunRecord(
        run_id=run_id,
        org_id=guest.scope.org_id,
        project_id=guest.scope.project_id,
        session_id=asked.session_id or parent.session_id,
        chain_id=asked.chain_id or parent.chain_id,
        parent_run_id=guest.run.invocation.related.run_id,
        invocation_id=guest.run.id,
        export_id=asked.export,
        task=task,
    )


def _invocation(guest: Guest, asked: NewRun, run: RunRecord, binding: Binding) -> Invocation:
    """A child's time is its parent's, and its policy is no wider: one level less is left to it."""
    target, policy = guest.harness.target, guest.harness.policy
    return Invocation(
        binding=binding,
        work=HarnessRequest(
            target=HarnessTarget(
                session_id=run.session_id or target.session_id,
                chain_id=run.chain_id,
                execution_id=run.run_id,
            ),
            trigger=Trigger("child_run", asked.input),
            policy=msgspec.structs.replace(policy, max_depth=policy.max_depth - 1),
            checkpoint=asked.checkpoint,
        ),
        related=Related(
            session_id=run.session_id,
            chain_id=run.chain_id,
            run_id=run.run_id,
            trace_id=guest.run.trace_id,
            project_id=run.project_id,
        ),
        timeout_ms=min(asked.timeout_ms or guest.left_ms, guest.left_ms),
    )
