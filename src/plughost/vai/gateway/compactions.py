"""Compactions that a harness asks for: a bound compactor makes a chain from one of the project's."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import CompactionPolicy, CompactionTarget
from plughost.errors import PluginError
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.gateway.guest import Guest, over
from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead, read
from plughost.vai.gateway.reading import BYTES_PER_TOKEN
from plughost.vai.gateway.tenancy import bound, its_own, named
from plughost.vai.invocations.invocation import Invocation, Invoker, Related
from plughost.vai.invocations.requests import CompactionRequest
from plughost.vai.state.state import TenantState

MOST_BYTES = 32 << 20
"""Of a chain that is compacted: it is held in memory, and handed over in a scratch folder."""


class NewCompaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request body that starts a compaction."""

    chain_id: str
    export: str
    """The bound compactor."""
    package_id: str | None = None
    target: CompactionTarget
    policy: CompactionPolicy = CompactionPolicy()
    pinned_items: list[Any] = []


class Compactions:
    """Handlers for compactions by a bound compactor."""

    def __init__(self, state: TenantState, bindings: Bindings, invoker: Invoker) -> None:
        self._state = state
        self._bindings = bindings
        self._invoker = invoker

    async def compact(self, guest: Guest, _: str, head: RequestHead, body: bytes) -> HttpAnswer:
        if not guest.harness.policy.allow_compaction:
            raise HttpProblem(403, "compaction_not_allowed", "this harness may not compact")
        asked = read(body, NewCompaction)
        chain = await its_own(guest, self._state.chains.chain(asked.chain_id))
        binding = bound(self._bindings, guest, asked.export, asked.package_id)
        compaction_id = named(guest, "cmp", head.key)
        named_so = {"compaction_id": compaction_id, "source_chain_id": chain.chain_id}
        if (made := await self._state.chains.derived(compaction_id)) is not None:
            return HttpAnswer(200, {**named_so, "chain_id": made})
        size = await self._state.chains.size(asked.chain_id)
        if size > MOST_BYTES:
            raise HttpProblem(
                413, "too_large", f"a chain of more than {MOST_BYTES} bytes cannot be compacted"
            )
        guest.spend(len(body))
        blocks = [block.as_json for block in await self._state.chains.blocks(asked.chain_id)]
        wanted = Invocation(
            binding=binding,
            work=CompactionRequest(
                compaction_id=compaction_id,
                chain_id=chain.chain_id,
                blocks=blocks,
                pinned_items=await guest.run.redactor.redact_json_async(asked.pinned_items),
                token_estimate=size // BYTES_PER_TOKEN,
                target=asked.target,
                policy=asked.policy,
            ),
            related=Related(
                session_id=chain.session_id,
                chain_id=chain.chain_id,
                run_id=guest.run.invocation.related.run_id,
                trace_id=guest.run.trace_id,
                project_id=guest.scope.project_id,
            ),
            timeout_ms=guest.left_ms,
        )
        work = guest.begin(self._invoker.invoke(wanted))
        await asyncio.wait([work])
        if work.cancelled():
            raise over()
        try:
            outcome = work.result()
        except PluginError as error:
            raise HttpProblem(422, "compaction_failed", error.message) from error
        if not outcome.ok:
            why = outcome.message or outcome.reason
            status = 422 if outcome.status == "failed" else 503  # which says that another try may help
            raise HttpProblem(status, "compaction_failed", f"{outcome.status}: {why}")
        reported = {name: outcome.result[name] for name in ("summary", "diagnostics")}
        return HttpAnswer(201, {**named_so, **reported, "chain_id": outcome.result["derived_chain_id"]})
