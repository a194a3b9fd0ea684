"""Tenants share the workers of a host: nobody waits for a neighbour's slow hooks, through real processes."""

from __future__ import annotations

import asyncio

from plughost.contracts.vai.request_bodies import CompactionTarget
from plughost.vai.bindings.binding import Scope
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import CompactionRequest
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.chains import Block, Chain
from tests.support import until
from tests.vai.invocations.conftest import bound
from tests.vai.invocations.test_hooks import completed

BUSY, OTHER = Scope("org_busy", "proj_1"), Scope("org_other", "proj_1")
EVENTS = 30
WORK = CompactionRequest(
    compaction_id="cmp_1",
    chain_id="ch_1",
    blocks=[],
    token_estimate=1,
    target=CompactionTarget(1000, "m"),
)


async def status_of(runtime: VaiRuntime, binding_id: str) -> list[str]:
    return [each.status for each in await runtime.deliveries.all() if each.binding_id == binding_id]


def slots_of(runtime: VaiRuntime, binding_id: str, tenant: Scope) -> int:
    """How many workers a tenant has."""
    share = runtime.invoker._preparer._workers.of(tenant.org_id, binding_id)
    return share.load()[0]


async def test_a_delivery_is_made_while_a_neighbours_hooks_have_all_their_slots(runtime_of) -> None:
    runtime = await runtime_of(bound("reacts", BUSY, "busy"), bound("reacts", OTHER, "other"))
    for number in range(EVENTS):
        await runtime.publish(BUSY, completed(number, "wait"))
    await until(lambda: slots_of(runtime, "busy", BUSY) == 4)
    for number in range(3):
        await runtime.publish(OTHER, completed(100 + number))
        for _ in range(3000):
            told = await status_of(runtime, "other")
            if told == ["acked"] * (number + 1):
                break
            await asyncio.sleep(0.01)
        assert told == ["acked"] * (number + 1)
        assert slots_of(runtime, "busy", BUSY) == 4, "the neighbour has all its slots still"
        assert "acked" not in await status_of(runtime, "busy")


async def test_slots_that_nobody_else_wants_are_used(runtime_of) -> None:
    runtime = await runtime_of(bound("reacts", BUSY, "busy"), workers=6)
    for number in range(EVENTS):
        await runtime.publish(BUSY, completed(number, "wait"))
    await until(lambda: slots_of(runtime, "busy", BUSY) == 6)
    assert runtime.invoker._options.reserved_workers == 1


async def test_a_compaction_does_not_wait_for_a_neighbours_hooks(runtime_of) -> None:
    compactor = bound("shortens", OTHER, "compactor")
    runtime = await runtime_of(bound("reacts", BUSY, "busy"), compactor, workers=1)
    for number in range(EVENTS):
        await runtime.publish(BUSY, completed(number, "wait"))
    await until(lambda: slots_of(runtime, "busy", BUSY) == 1)
    await runtime.state.chains.create(
        Chain(chain_id="ch_1", org_id=OTHER.org_id, project_id=OTHER.project_id), [Block("input", [])]
    )
    outcome = await runtime.invoke(Invocation(binding=compactor, work=WORK))
    assert outcome.ok, outcome
    assert slots_of(runtime, "busy", BUSY) == 1


async def test_one_that_gets_no_worker_in_time_says_which_limit_it_waited_for(runtime_of) -> None:
    compactor = bound("shortens", BUSY, "compactor")
    runtime = await runtime_of(bound("reacts", BUSY, "busy"), compactor, workers=1)
    await runtime.publish(BUSY, completed(1, "wait"))
    await until(lambda: slots_of(runtime, "busy", BUSY) == 1)
    outcome = await runtime.invoke(Invocation(binding=compactor, work=WORK, timeout_ms=100))
    assert (outcome.status, outcome.reason) == ("retryable_failure", "no_room")
    assert outcome.message == (
        "no slot was free in time; the maximum is 16 for the binding, and 1 for all background work"
    )
