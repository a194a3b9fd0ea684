"""The package as the host's invocations run it: confined, from a chain to a derived one."""

from __future__ import annotations

import os

import pytest

from plughost.contracts.vai.request_bodies import CompactionTarget
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.database.open_database import open_database
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.invoker import LocalInvoker
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.requests import MAX_INLINE, CompactionRequest
from plughost.vai.state.chains import Block, Chain
from plughost.vai.state.state import TenantState
from tests.support import confinable
from tests.support.vai_packages import Nowhere, Shelf, packaged


@pytest.fixture
async def woven(host, monkeypatch):
    """Compacts a chain, and gives the blocks of what comes of it."""
    confinable.needs("strict")
    monkeypatch.setenv("PATH", confinable.PATH)
    with confinable.open_folder() as place:
        folder = packaged("thread-weave", place)
        database = open_database(str(place / "state"))
        chains = TenantState(database).chains
        options = InvokerOptions(scratch_base=str(place))
        invoker = LocalInvoker(host, Shelf(folder), Nowhere(), host._clock, chains=chains, options=options)
        binding = Binding(
            binding_id="bind_1", package_id="plughost/thread-weave", package_version="1.0.0",
            export_id="thread_weave", scope=Scope("org_1", "proj_1"),
        )  # fmt: skip

        async def compact(blocks, budget, pinned=()):
            await chains.create(Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"), blocks)
            work = CompactionRequest(
                compaction_id="cmp_1",
                chain_id="ch_1",
                blocks=[block.as_json for block in await chains.blocks("ch_1")],
                pinned_items=list(pinned),
                token_estimate=9000,
                target=CompactionTarget(budget, "gpt-5.4"),
            )
            outcome = await invoker.invoke(Invocation(binding=binding, work=work, timeout_ms=60_000))
            assert outcome.ok, outcome
            assert outcome.result["diagnostics"]["estimator"] == "classes", "all that it tells is there"
            return await chains.blocks(outcome.result["derived_chain_id"])

        yield compact
        await invoker.close()
        await database.close()
        assert not [name for name in os.listdir(place) if "scratch" in name]


@pytest.mark.clause("VAI-85", "VAI-57")
@pytest.mark.parametrize("size", [20, MAX_INLINE // 400 + 10])
async def test_a_chain_becomes_a_smaller_one_with_lineage(woven, size):
    system = Block("system", [{"type": "text", "text": "You are a coding agent."}])
    result = Block("tool_result", [{"tool_execution_id": "toolx_1", "result": {"content": []}}])
    older = [Block("output", [{"type": "text", "text": "word " * 80}]) for _ in range(size)]
    task = Block("task", [{"type": "text", "text": "Mend it."}], {"id": "t1", "status": "open", "weight": 3})
    newest = Block("input", [{"type": "text", "text": "Go on."}])
    seeds = await woven(
        [system, result, *older, task, *older, newest], 1000, [{"type": "text", "text": "keep me"}]
    )
    assert seeds[0] == system
    assert seeds[1].content == [{"type": "text", "text": "keep me"}]
    assert seeds[-1] == newest
    assert task in seeds, "with all its members"
    line, *_ = [seed.content[0] for seed in seeds if "lineage" in seed.content[0]]
    assert line["text"].startswith("[woven: ")
    assert line["lineage"]["chain_id"] == "ch_1"
    assert line["lineage"]["ranges"][0]["first"] == "#1"


async def test_a_result_of_a_tool_is_kept_with_a_type(woven):
    call = Block("tool_call", [{"type": "text", "text": "search"}])
    result = Block("tool_result", [{"tool_execution_id": "toolx_1", "result": {"content": []}}])
    seeds = await woven([call, result], 1000)
    assert seeds == [call, Block("tool_result", [{**result.content[0], "type": "data"}])]
