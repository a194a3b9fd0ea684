"""Many invocations at once, with deadlines, cancellations and crashes: each ends once, and nothing is left."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from plughost.invocations.invocation import Invocation
from plughost.invocations.outcome import Outcome
from plughost.invocations.record import STATUSES, Began, Ended
from plughost.invocations.work import Tool
from tests.invocations.conftest import Bench

DEEDS = ("echo", "echo", "echo", "events", "wait", "fail", "crash", "leave", "ignore cancel", "retry")


async def one(lab: Bench, number: int, tenants: int, chance: random.Random) -> Outcome | None:
    export = chance.choice(("reads", "writes"))
    do = chance.choice(DEEDS if export == "writes" else [deed for deed in DEEDS if deed != "leave"])
    work = Tool(tool_execution_id=f"toolx_{number}", input={"do": do, "count": 3, "times": 2})
    wanted = Invocation(
        binding=lab.binding(export, f"org_{chance.randrange(tenants)}"),
        work=work,
        timeout_ms=chance.choice((20, 200, 1000, 3000)),
    )
    task = asyncio.create_task(lab.invoker.invoke(wanted))
    if chance.random() < 0.2:
        await asyncio.sleep(chance.random() * 0.3)
        task.cancel("caller left")
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def storm(lab: Bench, count: int, tenants: int) -> None:
    chance = random.Random(4711)
    outcomes = await asyncio.gather(*(one(lab, number, tenants, chance) for number in range(count)))
    began, ended = lab.kept.of(Began), lab.kept.of(Ended)
    assert len(began) == count
    assert Counter(each.invocation_id for each in ended) == Counter(each.invocation_id for each in began)
    assert {each.status for each in ended} <= {*STATUSES}
    assert len([outcome for outcome in outcomes if outcome is not None and outcome.ok]) > 0
    told = {each.invocation_id: each.status for each in ended}
    assert all(told[each.invocation_id] == each.status for each in outcomes if each is not None)
    assert not lab.invoker.running
    assert not list(lab.folder.glob("plughost-scratch-*/*/*")), "no scratch folder outlives its invocation"


@pytest.mark.clause("VAI-03", "VAI-39")
async def test_dozens_at_once(bench) -> None:
    await storm(bench(most_processes=6), 80, 4)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sandbox", ["none", "strict"])
async def test_a_thousand_at_once(bench, sandbox: str) -> None:
    """Two exports for each of ten tenants."""
    await storm(bench(most_processes=32, sandbox=sandbox), 1000, 10)
